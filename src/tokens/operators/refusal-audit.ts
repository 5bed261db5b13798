/**
 * Attempts on the operators' API that were refused, in the compliance log: what of them is worth knowing and no more
 * than that, because an entry cannot be taken back and anybody can make attempts. Addresses are personal data: they
 * stand in the process's log, beside the request id that the entry has too.
 */
import { appendEntry } from "../../compliance/append-entry.ts";
import type { EntrySources } from "../../compliance/entry.ts";
import type { Actor } from "../../compliance/entry-types.ts";
import type { Pool } from "../../database/pool.ts";
import { transaction } from "../../database/transaction.ts";
import { createSlidingWindow } from "../../domain/sliding-window.ts";
import type { ErrorCode } from "../../domain/errors.ts";
import type { Logger } from "../../observability/logger.ts";
import { operatorActor } from "./operator-identity.ts";

/** The same attempt again is the same news. */
const SAME = { count: 1, perMs: 60_000 };
/** Entries of one process, whoever tries whatever. */
const ALL = { count: 100, perMs: 3_600_000 };
const KINDS_MAX = 1_000;
/** The actor where nobody knows who it was. */
const NOBODY: Actor = "system:admin-api";

export interface Refusal {
  readonly code: ErrorCode;
  /** Whose attempt it was, where that is known. */
  readonly operatorId: string | null;
  /** Method and path template. */
  readonly operation: string;
  readonly address: string;
  readonly requestId: string;
}

/** Notes a refusal; resolves when it is written, also when that failed. */
export type NoteRefusal = (refusal: Refusal) => Promise<void>;

export interface RefusalAuditOptions extends EntrySources {
  /** Role signet_operator. */
  readonly pool: Pool;
  readonly log: Logger;
}

/** Makes the noting of refusals. */
export function createRefusalAudit({ pool, log, ...sources }: RefusalAuditOptions): NoteRefusal {
  const same = createSlidingWindow([SAME], KINDS_MAX);
  const all = createSlidingWindow([ALL], 1);
  return async ({ code, operatorId, operation, address, requestId }) => {
    const actor = operatorId === null ? NOBODY : operatorActor(operatorId);
    const nowMs = sources.clock.now();
    // Who is not known cannot make news of each route in turn.
    const news = [code, actor, operatorId === null ? "" : operation].join(" ");
    if (same.take(news, nowMs) > 0 || all.take("", nowMs) > 0) {
      return;
    }
    log.warn({ request_id: requestId, actor, code, operation, address }, "operator refused");
    try {
      await transaction(
        pool,
        async (db) =>
          await appendEntry(
            db,
            {
              type: "operator.refused",
              actor,
              tenant: null,
              target: operatorId,
              requestId,
              details: { code, operation },
            },
            sources,
          ),
      );
    } catch (error) {
      log.error({ err: error, request_id: requestId }, "a refused operator could not be noted");
    }
  };
}
