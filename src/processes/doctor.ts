/** `signet doctor`: checks every dependency of the service and says what to fix. */
import { randomBytes } from "node:crypto";
import { lookup } from "node:dns/promises";
import { openSink } from "#compliance/open-signer.ts";
import type { Config } from "#config/config.ts";
import { cellsOf } from "#config/cell-settings.ts";
import { directUrl, withoutPooler } from "#config/database-settings.ts";
import { loadServiceSecrets } from "#crypto/service-secrets.ts";
import { openDatabaseClock } from "#database/database-clock.ts";
import { createPool } from "#database/pool.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import { isAway } from "#domain/regions.ts";
import { examine, examineBucket, examineOutside, type Finding } from "./doctor/checks.ts";
import { examineFiles } from "./doctor/files.ts";
import { examineOpen } from "./doctor/replay-open.ts";
import { createLogger } from "#observability/logger.ts";
import { createLazyClient, temporalOptions } from "#temporal/client.ts";
import { createDataConverter } from "#temporal/codec.ts";
import { installTemporalRuntime } from "#temporal/runtime.ts";

export interface DoctorOptions {
  readonly config: Config & { readonly databaseUrl: string; readonly temporalAddress: string };
  /** Number of open workflows to replay on this build; 0: none. */
  readonly replay: number;
}

/** Returns the hosts of URLs, and a further host. */
function hostsOf(urls: readonly string[], further = ""): string[] {
  const hosts = [...urls.map((url) => new URL(url).hostname), further];
  // Without the brackets of an IPv6 address; a socket's path has no host.
  return [...new Set(hosts.map((host) => host.replaceAll(/^\[|\]$/g, "")))].filter((host) => host !== "");
}

/** Checks what an edge or a hub with a login of its own depends on. */
export async function runOutsideDoctor(
  config: Config & { readonly databaseUrl: string },
): Promise<Finding[]> {
  const pool = createPool({
    url: directUrl(config),
    role: "signet_edge",
    max: 1,
    log: createLogger({ level: "silent" }),
  });
  try {
    const { edgeApiUrl: api } = config;
    const names = hostsOf([config.databaseUrl, config.publicUrl, ...(api === undefined ? [] : [api])]);
    return [...(await examineOutside({ pool, names, resolve: lookup })), ...(await examineFiles(config))];
  } finally {
    await pool.end();
  }
}

/** Runs the checks. Returns the findings in order of dependency. */
export async function runDoctor({ config: given, replay }: DoctorOptions): Promise<Finding[]> {
  const config = withoutPooler(given);
  const log = createLogger({ level: "silent" });
  const { keyring } = await loadServiceSecrets(config, randomBytes, machineTimers);
  const open = (role: "signet_worker" | "signet_issuer"): ReturnType<typeof createPool> =>
    createPool({ url: config.databaseUrl, role, max: 2, log });
  const [pool, issuer] = [open("signet_worker"), open("signet_issuer")];
  const away = isAway(cellsOf(config)) && config.homeDatabaseUrl !== undefined;
  const home = away
    ? createPool({ url: config.homeDatabaseUrl, role: "signet_cell", max: 1, log })
    : undefined;
  const dataConverter = createDataConverter(keyring);
  const temporal = createLazyClient(temporalOptions(config), dataConverter);
  try {
    const findings = await examine({
      pool,
      issuer,
      home,
      temporal,
      keyring,
      // If the database does not answer, its check reports it.
      clock: await openDatabaseClock(pool, machineTimers).catch(() => systemClock),
      retentionDays: config.retentionDays,
      log,
      names: hostsOf(
        [config.databaseUrl, `http://${config.temporalAddress}`, config.publicUrl],
        config.outboundProxy?.hostname,
      ),
      resolve: lookup,
    });
    findings.push(...(await examineFiles(config)));
    if (config.checkpointBucket !== undefined) {
      findings.push(
        await examineBucket(async () => await openSink(config, { clock: systemClock, randomBytes })),
      );
    }
    if (replay > 0) {
      await installTemporalRuntime(log);
      findings.push(await examineOpen(temporal, replay, dataConverter));
    }
    return findings;
  } finally {
    await temporal.connection.close().catch(() => undefined);
    await Promise.all([pool.end(), issuer.end(), home?.end()]);
  }
}
