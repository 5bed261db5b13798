/** Changes by operators, each in one transaction with its compliance entry. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { appendEntry } from "#compliance/append-entry.ts";
import type { CanonicalValue } from "#compliance/canonical-json.ts";
import type { PoolClient } from "#database/pool.ts";
import type { Logger } from "#observability/logger.ts";
import { traceFields } from "#observability/tracer.ts";
import { operatorActor } from "#tokens/operators/operator-identity.ts";
import { type Published, publishPolicyChange } from "#revocation/publish-revocation.ts";
import type { Receipts } from "#revocation/receipts.ts";
import { changeOnce, type OnceServices } from "./once.ts";

/** The result of a change. */
export interface AuditedChange<Answer> {
  /** The response body. */
  readonly answer: Answer;
  /** The compliance entry, without secrets; absent if nothing changed. */
  readonly entry?: {
    readonly tenant: string | null;
    /** Id of the changed resource. */
    readonly target: string;
    readonly reason?: string | undefined;
    readonly details?: { readonly [name: string]: CanonicalValue };
  };
  /** Id of the tenant whose policy changed. Every process applies the policy before the response. */
  readonly policyOf?: string;
}

/**
 * Runs the work and writes the entry that the route declares, with the operator as its actor, atomically. A repeated
 * POST with the same Idempotency-Key gets the stored response and writes no entry.
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

/** Creates the function that commits changes. */
export function createCommitChange({ log, revocation, ...services }: CommitChangeOptions): CommitChange {
  return async (request, reply, work) => {
    const { audits: type } = request.routeOptions.config;
    if (typeof type !== "string") {
      throw new Error(`${request.routeOptions.url ?? ""} must declare exactly one audit entry type`);
    }
    const by = { type, actor: operatorActor(request.operator.id) };
    let entry: AuditedChange<unknown>["entry"];
    let published: Published | undefined;
    const answer = await changeOnce(request, reply, services, async (db) => {
      const change = await work(db);
      if (change.entry !== undefined) {
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
      log.info(
        { request_id: request.id, ...traceFields(request.span), ...by, ...entry },
        "change by an operator",
      );
    }
    return answer;
  };
}
