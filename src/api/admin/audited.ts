/** Changes by operators, each in one transaction with the compliance entry that tells of it. */
import type { FastifyRequest } from "fastify";
import { appendEntry } from "../../compliance/append-entry.ts";
import type { CanonicalValue } from "../../compliance/canonical-json.ts";
import type { EntrySources } from "../../compliance/entry.ts";
import type { Pool, PoolClient } from "../../database/pool.ts";
import { transaction } from "../../database/transaction.ts";
import type { Logger } from "../../observability/logger.ts";
import { operatorActor } from "../../operators/operator-identity.ts";

/** What a change has done, and what its entry says; never a secret. */
export interface AuditedChange<Result> {
  readonly result: Result;
  /** Absent when nothing was changed after all. */
  readonly entry?: {
    readonly tenant: string | null;
    /** The id of what was changed. */
    readonly target: string;
    readonly reason?: string | undefined;
    readonly details?: { readonly [name: string]: CanonicalValue };
  };
}

/** Runs the work and writes the entry that the route declares, with the operator as its actor; both or neither. */
export type CommitChange = <Result>(
  request: FastifyRequest,
  work: (db: PoolClient) => Promise<AuditedChange<Result>>,
) => Promise<Result>;

export interface CommitChangeOptions extends EntrySources {
  /** Role signet_operator. */
  readonly pool: Pool;
  readonly log: Logger;
}

/** Makes the committing of changes. */
export function createCommitChange({ pool, log, ...sources }: CommitChangeOptions): CommitChange {
  return async (request, work) => {
    const { audits: type } = request.routeOptions.config;
    if (typeof type !== "string") {
      throw new Error(`${request.routeOptions.url ?? ""} must declare the one entry that it leaves`);
    }
    const by = { type, actor: operatorActor(request.operator.id) };
    const { result, entry } = await transaction(pool, async (db) => {
      const change = await work(db);
      if (change.entry !== undefined) {
        // Last, because the log's head stays locked from here to the commit.
        await appendEntry(db, { ...by, requestId: request.id, ...change.entry }, sources);
      }
      return change;
    });
    if (entry !== undefined) {
      log.info({ request_id: request.id, ...by, ...entry }, "change by an operator");
    }
    return result;
  };
}
