/** Counts and digests of issued tokens per tenant: one log entry per hour, not per token (security decisions E). */
import { createHash, type Hash } from "node:crypto";
import { appendEntry } from "#compliance/append-entry.ts";
import type { EntryServices } from "#compliance/entry.ts";
import type { Pool } from "#database/pool.ts";
import { transaction } from "#database/transaction.ts";
import type { Clock, Timer, Timers } from "#domain/clock.ts";
import type { Logger } from "#observability/logger.ts";

/** Counted from the start of the process, so that the processes do not all write at once. */
const ENTRY_EVERY_MS = 3_600_000;
/** Interval between retries of failed writes. */
const RETRY_EVERY_MS = 60_000;
/** Tenants per transaction. It holds the lock on the log's head from its first entry on. */
const TENANTS_AT_ONCE = 100;

/** The tokens that one process issued for one tenant within an hour. */
export interface IssuedCount {
  readonly tenantId: string;
  readonly count: number;
  /** SHA-256 over their `jti`s in order of issue, each with a line end; hexadecimal. */
  readonly digest: string;
  /** When the first and the last of them were issued, in Unix milliseconds. */
  readonly firstMs: number;
  readonly lastMs: number;
}

export interface IssuedTokensOptions {
  /** Writes all of the counts or none. */
  readonly append: (counts: readonly IssuedCount[]) => Promise<void>;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
}

interface Running {
  readonly hash: Hash;
  readonly firstMs: number;
  lastMs: number;
  count: number;
}

/** The counter. A process that is killed loses the counts since its last entries, at most an hour's. */
export class IssuedTokens {
  readonly #options: IssuedTokensOptions;
  readonly #running = new Map<string, Running>();
  readonly #planned: readonly Timer[];
  #unwritten: readonly IssuedCount[] = [];
  #writing: Promise<void> = Promise.resolve();

  constructor(options: IssuedTokensOptions) {
    const { timers } = options;
    this.#options = options;
    this.#planned = [
      timers.every(ENTRY_EVERY_MS, () => void this.write()).unref(),
      timers.every(RETRY_EVERY_MS, () => void this.#writeUnwritten()).unref(),
    ];
  }

  /** Counts an issued token, in memory only. */
  note(tenantId: string, jti: string): void {
    const nowMs = this.#options.clock.now();
    let tenant = this.#running.get(tenantId);
    if (tenant === undefined) {
      tenant = { hash: createHash("sha256"), firstMs: nowMs, lastMs: nowMs, count: 0 };
      this.#running.set(tenantId, tenant);
    }
    tenant.hash.update(`${jti}\n`);
    tenant.count += 1;
    tenant.lastMs = nowMs;
  }

  /** Ends the hour and writes its counts. */
  async write(): Promise<void> {
    const ended = [...this.#running].map(([tenantId, { hash, ...counted }]) => ({
      tenantId,
      digest: hash.digest("hex"),
      ...counted,
    }));
    this.#running.clear();
    this.#unwritten = [...this.#unwritten, ...ended];
    await this.#writeUnwritten();
  }

  /** Writes the remaining counts and stops. */
  async close(): Promise<void> {
    this.#planned.forEach(this.#options.timers.cancel);
    await this.write();
  }

  /** Writes run one after the other. Two at once would append the same entries twice. */
  async #writeUnwritten(): Promise<void> {
    this.#writing = this.#writing.then(async () => await this.#appendUnwritten());
    await this.#writing;
  }

  async #appendUnwritten(): Promise<void> {
    try {
      while (this.#unwritten.length > 0) {
        const counts = this.#unwritten.slice(0, TENANTS_AT_ONCE);
        await this.#options.append(counts);
        this.#unwritten = this.#unwritten.slice(counts.length);
      }
    } catch (error) {
      this.#options.log.warn(
        { err: error, tenants: this.#unwritten.length },
        "the compliance log's entries of issued tokens could not be written",
      );
    }
  }
}

/** Appends a `tokens.issued` entry for each tenant, all or none (role signet_issuer). */
export async function appendIssuedTokens(
  pool: Pool,
  counts: readonly IssuedCount[],
  sources: EntryServices,
): Promise<void> {
  await transaction(pool, async (db) => {
    for (const { tenantId, count, digest, firstMs, lastMs } of counts) {
      const details = {
        count,
        digest,
        first_at: new Date(firstMs).toISOString(),
        last_at: new Date(lastMs).toISOString(),
      };
      await appendEntry(
        db,
        { type: "tokens.issued", actor: "system:issuer", tenant: tenantId, target: null, details },
        sources,
      );
    }
  });
}
