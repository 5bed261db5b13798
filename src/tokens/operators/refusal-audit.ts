/**
 * Entries of the compliance log about rejected requests to the operators' API. They are rate-limited, because anybody
 * can cause them and entries are permanent. Addresses are personal data, so they go only into the process's log, with
 * the request id of the entry.
 */
import { appendEntry } from "#compliance/append-entry.ts";
import type { EntryServices } from "#compliance/entry.ts";
import type { Actor } from "#compliance/entry-types.ts";
import type { Pool } from "#database/pool.ts";
import { transaction } from "#database/transaction.ts";
import { SlidingWindow } from "#domain/sliding-window.ts";
import type { ErrorCode } from "#domain/errors.ts";
import type { Logger } from "#observability/logger.ts";
import { operatorActor } from "./operator-identity.ts";

/** Limit for repetitions of the same attempt. */
const SAME = { count: 1, perMs: 60_000 };
/** Limit for all entries of one process. */
const ALL = { count: 100, perMs: 3_600_000 };
const KINDS_MAX = 1_000;
/** The actor if the operator is unknown. */
const NOBODY: Actor = "system:admin-api";

export interface Refusal {
  readonly code: ErrorCode;
  /** The operator, if known. */
  readonly operatorId: string | null;
  /** Method and path template. */
  readonly operation: string;
  readonly address: string;
  readonly requestId: string;
}

/** Records a refusal. Resolves after the write, even if it failed. */
export type NoteRefusal = (refusal: Refusal) => Promise<void>;

export interface RefusalAuditOptions extends EntryServices {
  /** Role signet_operator. */
  readonly pool: Pool;
  readonly log: Logger;
}

/** Creates the recorder of refusals. */
export function createRefusalAudit({ pool, log, ...sources }: RefusalAuditOptions): NoteRefusal {
  const same = new SlidingWindow([SAME], KINDS_MAX);
  const all = new SlidingWindow([ALL], 1);
  return async ({ code, operatorId, operation, address, requestId }) => {
    const actor = operatorId === null ? NOBODY : operatorActor(operatorId);
    const nowMs = sources.clock.now();
    // An unknown caller must not cause an entry per route.
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
      log.error({ err: error, request_id: requestId }, "a refused operator could not be recorded");
    }
  };
}
