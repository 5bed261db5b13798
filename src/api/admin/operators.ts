/** Operators and their roles. */
import type { Queryable } from "#database/pool.ts";
import {
  findOperator,
  insertOperator,
  listOperators,
  lockOperators,
  type OperatorRow,
  revokeOperator,
  updateOperator,
} from "#database/repositories/tokens/operators.ts";
import { newId } from "#domain/ids.ts";
import { found, SignetError } from "#domain/errors.ts";
import { requireWayIn } from "#tokens/operators/last-way-in.ts";
import { readPage, toPage } from "../pagination.ts";
import { Closed, IdempotencyHeaders, IdParams, Page, PageQuery } from "#http/common.ts";
import { NewOperator, Operator, OperatorChange, toOperator, ReasonGiven } from "../schemas/operators.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import type { AdminServices } from "./services.ts";

/** Returns the parts of an operator for the log. The name may be a person's, and entries cannot be deleted. */
function auditable({ role, san_uri, certificate_thumbprints }: OperatorRow) {
  return { role, san_uri, certificate_thumbprints };
}

/**
 * Returns the operator for a change, under a lock that serializes changes.
 *
 * @throws SignetError NOT_FOUND, INVALID_STATE
 */
export async function operatorToChange(db: Queryable, id: string): Promise<OperatorRow> {
  await lockOperators(db);
  const row = found(await findOperator(db, id), "operator");
  if (row.state === "REVOKED") {
    throw new SignetError("INVALID_STATE", { detail: "The operator has been revoked." });
  }
  return row;
}

export function registerOperatorRoutes(server: SignetServer, services: AdminServices): void {
  registerCreation(server, services);
  registerReads(server, services);
  registerChange(server, services);
  registerRevocation(server, services);
}

function registerCreation(server: SignetServer, { commit, clock, randomBytes }: AdminServices): void {
  server.post(
    "/admin/v1/operators",
    operation({
      id: "createOperator",
      tag: "operators",
      operator: "security",
      audits: "operator.created",
      summary: "Add an operator",
      description:
        "`read` reads everything, `provision` creates tenants and their resources, `security` revokes, erases and appoints operators. The operator needs a token or a registered certificate.",
      errors: ["LIMIT_EXCEEDED"],
      requestExamples: { "on call": { name: "Ada", role: "security" } },
      headers: IdempotencyHeaders,
      body: NewOperator,
      response: { 201: Operator },
    }),
    async (request, reply) => {
      const { name, role, san_uri: sanUri, certificate_thumbprints: thumbprints } = request.body;
      const nowMs = clock.now();
      const answer = await commit(request, reply, async (db) => {
        const row = await insertOperator(db, {
          id: newId("operator", nowMs, randomBytes),
          name,
          role,
          sanUri: sanUri ?? null,
          certificateThumbprints: thumbprints ?? [],
          createdBy: request.operator.id,
          nowMs,
        });
        return {
          answer: toOperator(row),
          entry: { tenant: null, target: row.id, details: auditable(row) },
        };
      });
      return await reply.code(201).send(answer);
    },
  );
}

function registerReads(server: SignetServer, { pool }: AdminServices): void {
  server.get(
    "/admin/v1/operators",
    operation({
      id: "listOperators",
      tag: "operators",
      operator: "read",
      summary: "List operators",
      description: "Newest first, including revoked operators.",
      querystring: Closed(PageQuery),
      response: { 200: Page(Operator) },
    }),
    async (request) => {
      const page = readPage(request);
      return toPage((await listOperators(pool, page)).map(toOperator), page);
    },
  );

  server.get(
    "/admin/v1/operators/:id",
    operation({
      id: "getOperator",
      tag: "operators",
      operator: "read",
      summary: "Read an operator",
      description: "Returns its role, its certificates and whether it is revoked.",
      params: IdParams("operator"),
      response: { 200: Operator },
    }),
    async ({ params }) => toOperator(found(await findOperator(pool, params.id), "operator")),
  );
}

function registerChange(server: SignetServer, { commit, clock, bootstrap }: AdminServices): void {
  server.patch(
    "/admin/v1/operators/:id",
    operation({
      id: "updateOperator",
      tag: "operators",
      operator: "security",
      audits: "operator.changed",
      summary: "Change an operator's role or certificates",
      description: "Absent members stay unchanged. The last operator who can appoint others keeps that role.",
      errors: ["INVALID_STATE"],
      requestExamples: { "another role": { role: "provision" } },
      params: IdParams("operator"),
      body: OperatorChange,
      response: { 200: Operator },
    }),
    async (request, reply) => {
      const { role, san_uri: sanUri, certificate_thumbprints: thumbprints } = request.body;
      return await commit(request, reply, async (db) => {
        const before = await operatorToChange(db, request.params.id);
        const row = await updateOperator(db, before.id, {
          role: role ?? before.role,
          sanUri: sanUri === undefined ? before.san_uri : sanUri,
          certificateThumbprints: thumbprints ?? before.certificate_thumbprints,
        });
        if (!bootstrap) {
          await requireWayIn(db, clock.now());
        }
        const details = { before: auditable(before), after: auditable(row) };
        return { answer: toOperator(row), entry: { tenant: null, target: row.id, details } };
      });
    },
  );
}

function registerRevocation(server: SignetServer, { commit, clock, bootstrap }: AdminServices): void {
  server.post(
    "/admin/v1/operators/:id/revoke",
    operation({
      id: "revokeOperator",
      tag: "operators",
      operator: "security",
      audits: "operator.revoked",
      optionalBody: true,
      summary: "Revoke an operator permanently",
      description:
        "Revokes all its tokens and certificates too. The last operator who can appoint others cannot be revoked.",
      errors: ["INVALID_STATE"],
      requestExamples: { "with a reason": { reason: "Left the company" } },
      params: IdParams("operator"),
      headers: IdempotencyHeaders,
      body: ReasonGiven,
      response: { 200: Operator },
    }),
    async (request, reply) => {
      const { reason } = request.body;
      const nowMs = clock.now();
      return await commit(request, reply, async (db) => {
        await lockOperators(db);
        const before = found(await findOperator(db, request.params.id), "operator");
        if (before.state === "REVOKED") {
          return { answer: toOperator(before) };
        }
        const row = await revokeOperator(db, before.id, nowMs);
        if (!bootstrap) {
          await requireWayIn(db, nowMs);
        }
        return {
          answer: toOperator(row),
          entry: { tenant: null, target: row.id, reason, details: auditable(before) },
        };
      });
    },
  );
}
