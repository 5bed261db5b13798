/** Events of rotations at the token endpoint. They are collected in memory and written in bulk, outside of requests. */
import type { Pool } from "#database/pool.ts";
import type { SecretVersionKey } from "#database/repositories/tokens/clients.ts";
import { countDeliveries, type LateUse, reportLateUse } from "#database/repositories/secret-versions.ts";
import { transaction } from "#database/transaction.ts";
import type { Clock, Timers } from "#domain/clock.ts";
import type { Logger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import type { AppendRotationEntry } from "./rotation-log.ts";

const WRITE_EVERY_MS = 1_000;
/** At most one entry a day, because a client that never changes its secret may use it for years. */
const REPORT_EVERY_MS = 86_400_000;

const LATE_USES = {
  rescue: {
    type: "credential.rescued",
    message: "an ended client secret got a token over its registered certificate",
  },
  misuse: { type: "credential.retired_secret_used", message: "an ended client secret was presented" },
} as const;

/** A version with its tenant. */
export interface NoticedVersion extends SecretVersionKey {
  readonly tenant_id: string;
}

/** A use that is not written yet. */
interface Noticed {
  readonly use: LateUse;
  readonly noticed: NoticedVersion;
  /** When it was first used since the last write. */
  readonly usedAtMs: number;
}

export interface RotationNotices {
  /** Notes that this successor was handed out. */
  delivered(version: NoticedVersion): void;
  /** Notes that this version was used after its end. */
  late(use: LateUse, version: NoticedVersion): void;
  /** Writes the notes and stops. */
  close(): Promise<void>;
}

export interface RotationNoticesOptions {
  /** Role signet_rotator. */
  readonly pool: Pool;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly append: AppendRotationEntry;
  readonly log: Logger;
}

/** Creates the recorder. */
export function createRotationNotices({
  pool,
  clock,
  timers,
  append,
  log,
}: RotationNoticesOptions): RotationNotices {
  const deliveries = new Map<string, NoticedVersion & { count: number }>();
  const lateUses = new Map<string, Noticed>();
  let flushing = Promise.resolve();

  async function reportLate({ use, noticed, usedAtMs }: Noticed): Promise<void> {
    const { tenant_id: tenantId, credential_id: credentialId, version } = noticed;
    const { type, message } = LATE_USES[use];
    const nowMs = clock.now();
    await transaction(pool, async (db) => {
      if (await reportLateUse(db, use, noticed, { nowMs, sinceMs: nowMs - REPORT_EVERY_MS })) {
        metrics.lateSecretUses.inc({ use });
        log.warn({ tenant_id: tenantId, credential_id: credentialId, version }, message);
        // `used_at` is recorded because entries with lower numbers, such as a revocation, may have happened later.
        const details = { version, used_at: new Date(usedAtMs).toISOString() };
        await append(db, { type, tenantId, credentialId, details });
      }
    });
  }

  async function flush(): Promise<void> {
    const counted = [...deliveries.values()];
    const late = [...lateUses.values()];
    deliveries.clear();
    lateUses.clear();
    try {
      if (counted.length > 0) {
        await countDeliveries(pool, counted);
      }
      for (const use of late) {
        await reportLate(use);
      }
    } catch (error) {
      // The next use is noted again.
      log.warn({ err: error }, "rotation notices could not be written");
    }
  }

  const schedule = async (): Promise<void> => {
    flushing = flushing.then(flush);
    await flushing;
  };
  const timer = timers.every(WRITE_EVERY_MS, () => void schedule()).unref();
  return {
    delivered: (noticed) => {
      const key = `${noticed.credential_id} ${noticed.version}`;
      const counted = deliveries.get(key) ?? { ...noticed, count: 0 };
      counted.count += 1;
      deliveries.set(key, counted);
    },
    late: (use, noticed) => {
      const key = `${use} ${noticed.credential_id} ${noticed.version}`;
      if (!lateUses.has(key)) {
        lateUses.set(key, { use, noticed, usedAtMs: clock.now() });
      }
    },
    close: async () => {
      timers.cancel(timer);
      await schedule();
    },
  };
}
