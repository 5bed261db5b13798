/** Wires the follower of revocations for a process that admits Bearer tokens. */
import { randomInt } from "node:crypto";
import type { Config } from "#config/config.ts";
import { type DatabaseUrls, directUrl } from "#config/database-settings.ts";
import { createPool } from "#database/pool.ts";
import type { FollowerRow } from "#database/repositories/tokens/revocations.ts";
import { subscribe } from "#database/subscription.ts";
import type { LearnedClock } from "#domain/clock.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import type { ClientCertificate } from "#http/mutual-tls/client-certificate.ts";
import type { Logger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import { VERSION } from "#runtime/package.ts";
import type { ReadinessCheck } from "#runtime/readiness.ts";
import { REVOCATION_CHANNEL, RevocationFollower } from "#revocation/follower.ts";
import { type RevocationMode, STRICT_BOUND_MS } from "#config/revocation.ts";

/** The lease is shorter than the bound by this: what a process still does after its check of a token. */
const MARGIN_MS = 50;
const LOOK_CONNECTIONS = 2;
const METRICS_EVERY_MS = 1_000;
const LOCK_KEYS = 2 ** 31;

/** A connection silent for longer belongs to a process that no longer admits tokens. */
const SILENT_MIN_MS = 5_000;

/** Returns what a process is known by among those that follow the revocations. */
export function followerIdentity(
  process: string,
  { region }: Pick<Config, "region">,
): Omit<FollowerRow, "leaseMs"> {
  return { lockKey: randomInt(LOCK_KEYS), process, region: region ?? null, version: VERSION };
}

export interface RevocationProcessServices {
  /** Kind of process, for the list of followers. */
  readonly process?: string;
  /** Called when a tenant's policy has changed. */
  readonly onPolicyChange?: (tenantId: string) => void;
  readonly config: Pick<Config, "revocationMode" | "region"> & DatabaseUrls;
  /** The clock by which the process checks tokens. The database's answers set it. */
  readonly time: LearnedClock;
  readonly log: Logger;
}

/** What admits tokens, over a connection to the database or through hubs. */
export type Follower = Pick<RevocationFollower, "view" | "renew" | "requireCurrent">;

function reportEvery(follower: Follower, bounded: boolean): NodeJS.Timeout {
  return setInterval(() => {
    const { ageMs, sequence } = follower.view;
    metrics.revocationAge.set(ageMs / 1_000);
    metrics.revocationSequence.set(sequence);
    metrics.revocationServingStale.set(bounded && ageMs >= STRICT_BOUND_MS - MARGIN_MS ? 1 : 0);
  }, METRICS_EVERY_MS).unref();
}

/** Starts to follow. Resolves after the first complete read or its failure; without one, no token is admitted. */
export async function followRevocations({
  process = "api",
  onPolicyChange,
  config,
  time,
  log,
}: RevocationProcessServices): Promise<RunningFollower> {
  const { revocationMode: mode } = config;
  const url = directUrl(config);
  const other = createPool({ url, role: "signet_edge", max: LOOK_CONNECTIONS, log });
  const idleMs = Math.max(SILENT_MIN_MS, mode.boundMs);
  const follower = new RevocationFollower({
    subscribe: async (handlers) =>
      await subscribe({
        ...handlers,
        timers: machineTimers,
        url,
        role: "signet_edge",
        channel: REVOCATION_CHANNEL,
        idleMs,
      }),
    other,
    identity: followerIdentity(process, config),
    leaseMs: mode.boundMs - MARGIN_MS,
    onPolicyChange,
    // The machine's own clock, which runs while the machine is suspended. The database's is counted on by the monotonic
    // one, which then stands still.
    clock: systemClock,
    time,
    timers: machineTimers,
    log,
  });
  await follower.start();
  return new RunningFollower(follower, mode, {
    log,
    close: async () => {
      await follower.stop();
      await other.end();
    },
  });
}

/** A follower that has started, with metrics, the check of readiness and the check of certificates. */
export class RunningFollower {
  readonly follower: Follower;
  readonly readiness: readonly ReadinessCheck[];
  readonly #reporting: NodeJS.Timeout;
  readonly #close: () => Promise<void>;

  constructor(
    follower: Follower,
    mode: RevocationMode,
    {
      log,
      files,
      close,
    }: {
      readonly log: Logger;
      /** Check of the files of its connections. */
      readonly files?: ReadinessCheck | undefined;
      readonly close: () => Promise<void>;
    },
  ) {
    const isBounded = mode.name === "bounded";
    this.follower = follower;
    this.readiness = [
      {
        name: "revocation",
        check: async () => await follower.requireCurrent(),
        ...(isBounded ? { note: { mode: "bounded", bound_ms: mode.boundMs } } : {}),
      },
      ...(files === undefined ? [] : [files]),
    ];
    this.#reporting = reportEvery(follower, isBounded);
    this.#close = close;
    if (mode.boundMs > STRICT_BOUND_MS) {
      log.warn({ bound_ms: mode.boundMs }, "revoked tokens may be admitted for longer than 250 ms");
    }
  }

  /** Whether a client certificate is revoked. */
  readonly isDenied = ({ x5t }: ClientCertificate): boolean => this.follower.view.deniesCertificate(x5t);

  async close(): Promise<void> {
    clearInterval(this.#reporting);
    await this.#close();
  }
}
