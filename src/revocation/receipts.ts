/** Waits for the receipts of revocations and records them (security decisions D). */
import { STRICT_BOUND_MS } from "#config/revocation.ts";
import { encodeEntry, type EntryServices } from "#compliance/entry.ts";
import type { Pool } from "#database/pool.ts";
import {
  type FollowerStanding,
  type Propagation,
  readPropagation,
  reportPropagation,
} from "#database/repositories/tokens/revocations.ts";
import { transaction } from "#database/transaction.ts";
import type { Logger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import type { Published } from "./publish-revocation.ts";
import { isSettled, type Receipt, receiptOf, type ReceiptWait, UNKNOWN_RECEIPT } from "./receipt.ts";
import type { Timers } from "#domain/clock.ts";

/** Pauses between reads, in milliseconds. The last one repeats. */
const LOOK_AGAIN_MS = [5, 10, 10, 15, 25] as const;

/** Services of the routes that revoke. */
export interface RevocationServices extends EntryServices {
  readonly receipts: Receipts;
}

export interface ReceiptOptions extends EntryServices {
  /** Role signet_issuer. */
  readonly pool: Pool;
  /** Region of this process; undefined if unknown. Then `region` waits for processes whose region is unknown, too. */
  readonly region: string | undefined;
  readonly timers: Timers;
  readonly log: Logger;
}

interface Outcome {
  readonly propagation: Propagation;
  /** Lower bound of the time since the commit, in milliseconds. */
  readonly sinceCommitMs: number;
}

async function waitFor(
  wait: ReceiptWait,
  { pool, timers, region }: ReceiptOptions,
  sequence: number,
): Promise<Outcome> {
  const startedAt = timers.monotonic();
  const isAwaited = (follower: Pick<FollowerStanding, "region">): boolean =>
    wait === "all" || (wait === "region" && follower.region === (region ?? null));
  for (let looks = 0; ; looks += 1) {
    const propagation = await readPropagation(pool, sequence);
    const sinceCommitMs = timers.monotonic() - startedAt;
    const pause = LOOK_AGAIN_MS[Math.min(looks, LOOK_AGAIN_MS.length - 1)] ?? 0;
    if (isSettled(propagation, sinceCommitMs, isAwaited) || sinceCommitMs + pause >= STRICT_BOUND_MS) {
      return { propagation, sinceCommitMs };
    }
    await timers.sleep(pause);
  }
}

export class Receipts {
  readonly #options: ReceiptOptions;
  readonly #reports = new Set<Promise<void>>();

  constructor(options: ReceiptOptions) {
    this.#options = options;
  }

  /**
   * Waits after the commit until all followers apply the revocation, or those of this process's region, for at most
   * 250 ms. The log's entry always says how all of them did. Never rejects.
   */
  async of(revocation: Published, wait: ReceiptWait = "all"): Promise<Receipt> {
    const { sequence } = revocation;
    try {
      if (wait !== "all") {
        const { propagation, sinceCommitMs } = await waitFor(wait, this.#options, sequence);
        this.#track(this.#waitForAll(revocation));
        return receiptOf(propagation, sinceCommitMs);
      }
      return await this.#waitForAll(revocation);
    } catch (error) {
      // The revocation is in effect. Only the receipt is missing.
      this.#options.log.warn({ err: error, sequence }, "a revocation has no receipt");
      return UNKNOWN_RECEIPT;
    }
  }

  /** Resolves when all pending reports are written. */
  async drain(): Promise<void> {
    await Promise.all(this.#reports);
  }

  async #waitForAll(revocation: Published): Promise<Receipt> {
    const { propagation, sinceCommitMs } = await waitFor("all", this.#options, revocation.sequence);
    const receipt = receiptOf(propagation, sinceCommitMs);
    if (!propagation.reported) {
      metrics.revocationUnacknowledged.inc(receipt.live - receipt.acked);
      if (receipt.maxMs !== null) {
        metrics.revocationPropagation.observe(receipt.maxMs / 1_000);
      }
      this.#track(write(revocation, receipt, this.#options));
    }
    return receipt;
  }

  /** Keeps work that `drain` waits for. */
  #track(work: Promise<unknown>): void {
    const done = work
      .then(() => undefined)
      .catch((error: unknown) => this.#options.log.warn({ err: error }, "a receipt could not be recorded"))
      .finally(() => this.#reports.delete(done));
    this.#reports.add(done);
  }
}

async function write(
  { id, sequence, tenant }: Published,
  receipt: Receipt,
  options: ReceiptOptions,
): Promise<void> {
  const { live, acked, maxMs, outcome, expired: lease_expired } = receipt;
  const processes = receipt.processes.map((process) => ({ ...process }));
  const entry = encodeEntry(
    {
      type: "revocation.propagated",
      actor: "system:revocation",
      tenant,
      target: id,
      details: { edges: live, acked, lease_expired, max_ms: maxMs, outcome, processes },
    },
    options,
  );
  const named = { slowestMs: maxMs, processes: JSON.stringify(processes) };
  await transaction(options.pool, async (db) => await reportPropagation(db, sequence, named, entry));
}
