/** Changes by operators, each in one transaction with the compliance entry that tells of it. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { appendEntry } from "../../compliance/append-entry.ts";
import type { CanonicalValue } from "../../compliance/canonical-json.ts";
import type { PoolClient } from "../../database/pool.ts";
import type { Logger } from "../../observability/logger.ts";
import { operatorActor } from "../../tokens/operators/operator-identity.ts";
import { publishPolicyChange } from "../../revocation/policy-change.ts";
import type { Acknowledged, Receipts } from "../../revocation/receipts.ts";
import { changeOnce, type OnceServices } from "./once.ts";

/** What a change has done. */
export interface AuditedChange<Answer> {
  /** What the route answers, as it goes over the wire. */
  readonly answer: Answer;
  /** What the entry says, never a secret; absent when nothing was changed after all. */
  readonly entry?: {
    readonly tenant: string | null;
    /** The id of what was changed. */
    readonly target: string;
    readonly reason?: string | undefined;
    readonly details?: { readonly [name: string]: CanonicalValue };
  };
  /** Whose policy the change is: every process goes by it once it is answered. */
  readonly policyOf?: string;
}

/**
 * Runs the work and writes the entry that the route declares, with the operator as its actor; both or neither. A POST
 * that comes again with its Idempotency-Key is answered as before, and leaves nothing.
 */
export type CommitChange = <Answer>(
  request: FastifyRequest,
  reply: Pick<FastifyReply, "header">,
  work: (db: PoolClient) => Promise<AuditedChange<Answer>>,
) => Promise<Answer>;

export interface CommitChangeOptions extends OnceServices {
  readonly revocation: { readonly receipts: Pick<Receipts, "of"> };
  readonly log: Logger;
}

/** Makes the committing of changes. */
export function createCommitChange({ log, revocation, ...services }: CommitChangeOptions): CommitChange {
  return async (request, reply, work) => {
    const { audits: type } = request.routeOptions.config;
    if (typeof type !== "string") {
      throw new Error(`${request.routeOptions.url ?? ""} must declare the one entry that it leaves`);
    }
    const by = { type, actor: operatorActor(request.operator.id) };
    let entry: AuditedChange<unknown>["entry"];
    let published: Acknowledged | undefined;
    const answer = await changeOnce(request, reply, services, async (db) => {
      const change = await work(db);
      if (change.entry !== undefined) {
        // After the work, because the log's head stays locked from here to the commit.
        await appendEntry(db, { ...by, requestId: request.id, ...change.entry }, services);
      }
      ({ entry } = change);
      if (change.policyOf !== undefined) {
        published = await publishPolicyChange(db, { tenantId: change.policyOf, actor: by.actor }, services);
      }
      return change.answer;
    });
    if (published !== undefined) {
      await revocation.receipts.of(published);
    }
    if (entry !== undefined) {
      log.info({ request_id: request.id, ...by, ...entry }, "change by an operator");
    }
    return answer;
  };
}
