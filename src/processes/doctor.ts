/** `signet doctor`: looks at everything that the service depends on and says what to mend. */
import { randomBytes } from "node:crypto";
import type { Config } from "../config.ts";
import { loadServiceSecrets } from "../crypto/secrets.ts";
import { createPool } from "../database/pool.ts";
import { systemClock } from "../domain/clock.ts";
import { examine, type Finding } from "../doctor/checks.ts";
import { replayOpen } from "../doctor/replay-open.ts";
import { createLogger } from "../observability/logger.ts";
import { codecOf } from "./codec.ts";
import { createLazyClient, temporalOptions } from "../temporal/client.ts";
import { installTemporalRuntime } from "../temporal/runtime.ts";

export interface DoctorOptions {
  readonly config: Config & { readonly databaseUrl: string; readonly temporalAddress: string };
  /** Replay so many open workflows on this build; 0: none. */
  readonly replay: number;
}

/** Runs the checks; the findings in the order of what depends on what. */
export async function runDoctor({ config, replay }: DoctorOptions): Promise<Finding[]> {
  const log = createLogger({ level: "silent" });
  const { keyring } = await loadServiceSecrets(config, randomBytes);
  const open = (role: "signet_worker" | "signet_issuer"): ReturnType<typeof createPool> =>
    createPool({ url: config.databaseUrl, role, max: 2, log });
  const [pool, issuer] = [open("signet_worker"), open("signet_issuer")];
  const codec = codecOf(config, { keyring, clock: systemClock, randomBytes });
  const temporal = createLazyClient(temporalOptions(config), codec);
  try {
    const findings = await examine({ pool, issuer, temporal, keyring, clock: systemClock, log });
    if (replay > 0) {
      await installTemporalRuntime(log);
      const { replayed, failures } = await replayOpen(temporal, replay, codec);
      findings.push({
        check: "replay",
        ok: failures.length === 0,
        detail:
          failures.length === 0
            ? `${replayed} open workflows would go on with this build`
            : `${failures.length} of ${replayed} open workflows would not go on with this build, first ${failures[0]?.workflowId}: ${failures[0]?.reason}`,
      });
    }
    return findings;
  } finally {
    await temporal.connection.close().catch(() => undefined);
    await Promise.all([pool.end(), issuer.end()]);
  }
}
