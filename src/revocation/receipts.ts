/** Receipts: how many of those who follow the revocations obey one, and how long the slowest took (security decisions D). */
import { setTimeout as delay } from "node:timers/promises";
import { encodeEntry, type EntrySources } from "../compliance/entry.ts";
import type { Pool } from "../database/pool.ts";
import { readReceipt, type Receipt, reportPropagation } from "../database/repositories/tokens/revocations.ts";
import type { OwnEventSources } from "../webhooks/ingest/own-event.ts";
import { transaction } from "../database/transaction.ts";
import type { Logger } from "../observability/logger.ts";
import { metrics } from "../observability/metrics.ts";
import type { Revocation } from "./publish-revocation.ts";

/** An answer waits for acknowledgements so long; who has not sent one by then admits nobody (specification 8). */
const WAIT_MS = 250;
/** Pauses between looks; the last one repeats. */
const LOOK_AGAIN_MS = [5, 10, 10, 15, 25] as const;

/** What a receipt is for. */
export type Acknowledged = Pick<Revocation, "id" | "sequence" | "tenant">;

export interface Receipts {
  /** Waits, after the commit, until everybody who follows obeys the revocation, for 250 ms at most. Never rejects. */
  of(revocation: Acknowledged): Promise<Receipt>;
  /** Resolves when everything is written that receipts gave cause for. */
  drain(): Promise<void>;
}

/** What the routes that revoke work with. */
export interface RevocationServices extends OwnEventSources {
  readonly receipts: Receipts;
}

export interface ReceiptOptions extends EntrySources {
  /** Role signet_issuer. */
  readonly pool: Pool;
  readonly monotonic: () => number;
  readonly log: Logger;
}

async function waitForAll({ pool, monotonic }: ReceiptOptions, sequence: number): Promise<Receipt> {
  const deadline = monotonic() + WAIT_MS;
  for (let looks = 0; ; looks += 1) {
    const receipt = await readReceipt(pool, sequence);
    const pause = LOOK_AGAIN_MS[Math.min(looks, LOOK_AGAIN_MS.length - 1)] ?? 0;
    if (receipt.acked >= receipt.live || monotonic() + pause >= deadline) {
      return receipt;
    }
    await delay(pause);
  }
}

export function createReceipts(options: ReceiptOptions): Receipts {
  const { pool, log } = options;
  const reports = new Set<Promise<void>>();

  async function write({ id, sequence, tenant }: Acknowledged, receipt: Receipt): Promise<void> {
    const { live, acked, maxMs } = receipt;
    const entry = encodeEntry(
      {
        type: "revocation.propagated",
        actor: "system:revocation",
        tenant,
        target: id,
        details: { edges: live, acked, max_ms: maxMs },
      },
      options,
    );
    await transaction(pool, async (db) => await reportPropagation(db, sequence, maxMs, entry));
  }

  function report(revocation: Acknowledged, receipt: Receipt): void {
    metrics.revocationUnacknowledged.inc(receipt.live - receipt.acked);
    if (receipt.maxMs !== null) {
      metrics.revocationPropagation.observe(receipt.maxMs / 1_000);
    }
    const { sequence } = revocation;
    const writing = write(revocation, receipt)
      .catch((error: unknown) => log.warn({ err: error, sequence }, "a receipt was not written down"))
      .finally(() => reports.delete(writing));
    reports.add(writing);
  }

  return {
    of: async (revocation) => {
      try {
        const receipt = await waitForAll(options, revocation.sequence);
        if (!receipt.reported) {
          report(revocation, receipt);
        }
        return receipt;
      } catch (error) {
        // The revocation stands; it is only not known who has heard of it.
        log.warn({ err: error, sequence: revocation.sequence }, "a revocation has no receipt");
        return { live: 0, acked: 0, maxMs: null, reported: true };
      }
    },
    drain: async () => {
      await Promise.all(reports);
    },
  };
}
