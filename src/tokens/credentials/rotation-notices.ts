/** Events of rotations at the token endpoint. They are collected in memory and written in bulk, outside of requests. */
import type { Pool } from "#database/pool.ts";
import type { SecretVersionKey } from "#database/repositories/tokens/clients.ts";
import { countDeliveries, type LateUse, reportLateUse } from "#database/repositories/secret-versions.ts";
import { transaction } from "#database/transaction.ts";
import type { Clock, Timer, Timers } from "#domain/clock.ts";
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

export interface RotationNoticesOptions {
  /** Role signet_rotator. */
  readonly pool: Pool;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly append: AppendRotationEntry;
  readonly log: Logger;
}

export class RotationNotices {
  readonly #options: RotationNoticesOptions;
  readonly #deliveries = new Map<string, NoticedVersion & { count: number }>();
  readonly #lateUses = new Map<string, Noticed>();
  readonly #timer: Timer;
  #flushing = Promise.resolve();

  constructor(options: RotationNoticesOptions) {
    this.#options = options;
    this.#timer = options.timers.every(WRITE_EVERY_MS, () => void this.#schedule()).unref();
  }

  /** Notes that this successor was handed out. */
  delivered(noticed: NoticedVersion): void {
    const key = `${noticed.credential_id} ${noticed.version}`;
    const counted = this.#deliveries.get(key) ?? { ...noticed, count: 0 };
    counted.count += 1;
    this.#deliveries.set(key, counted);
  }

  /** Notes that this version was used after its end. */
  late(use: LateUse, noticed: NoticedVersion): void {
    const key = `${use} ${noticed.credential_id} ${noticed.version}`;
    if (!this.#lateUses.has(key)) {
      this.#lateUses.set(key, { use, noticed, usedAtMs: this.#options.clock.now() });
    }
  }

  /** Writes the notes and stops. */
  async close(): Promise<void> {
    this.#options.timers.cancel(this.#timer);
    await this.#schedule();
  }

  async #schedule(): Promise<void> {
    this.#flushing = this.#flushing.then(async () => await this.#flush());
    await this.#flushing;
  }

  async #flush(): Promise<void> {
    const counted = [...this.#deliveries.values()];
    const late = [...this.#lateUses.values()];
    this.#deliveries.clear();
    this.#lateUses.clear();
    try {
      if (counted.length > 0) {
        await countDeliveries(this.#options.pool, counted);
      }
      for (const use of late) {
        await this.#reportLate(use);
      }
    } catch (error) {
      // The next use is noted again.
      this.#options.log.warn({ err: error }, "rotation notices could not be written");
    }
  }

  async #reportLate({ use, noticed, usedAtMs }: Noticed): Promise<void> {
    const { pool, clock, append, log } = this.#options;
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
}
