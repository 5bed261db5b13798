/** Tokens of operators: shown once, valid for a limited time, revoked one by one. */
import { Type } from "typebox";
import {
  countLiveTokens,
  findOperatorToken,
  insertOperatorToken,
  listOperatorTokens,
  revokeOperatorToken,
} from "#database/repositories/tokens/operator-tokens.ts";
import { findOperator, lockOperators } from "#database/repositories/tokens/operators.ts";
import { newId } from "#domain/ids.ts";
import { found, SignetError } from "#domain/errors.ts";
import { requireWayIn } from "#tokens/operators/last-way-in.ts";
import { newOperatorToken, shownPrefix } from "#tokens/operators/token-format.ts";
import { readPage, toPage } from "../pagination.ts";
import { Closed, Id, IdempotencyHeaders, IdParams, Page, PageQuery } from "#http/common.ts";
import {
  EXPIRES_IN_DAYS,
  IssuedOperatorToken,
  NewOperatorToken,
  OperatorToken,
  toOperatorToken,
} from "../schemas/operators.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import { operatorToChange } from "./operators.ts";
import type { AdminServices } from "./services.ts";

const DAY_MS = 86_400_000;
/** Maximum number of valid tokens per operator. */
const LIVE_TOKENS_MAX = 10;

export function registerOperatorTokenRoutes(server: SignetServer, services: AdminServices): void {
  registerIssue(server, services);
  registerList(server, services);
  registerRevocation(server, services);
}

function registerIssue(server: SignetServer, { commit, pepper, clock, randomBytes }: AdminServices): void {
  server.post(
    "/admin/v1/operators/:id/tokens",
    operation({
      id: "createOperatorToken",
      tag: "operators",
      operator: "security",
      audits: "operator.token_created",
      summary: "Create a token for an operator",
      description: "The token is shown only in this response.",
      errors: ["INVALID_STATE", "LIMIT_EXCEEDED"],
      params: IdParams("operator"),
      headers: IdempotencyHeaders,
      body: NewOperatorToken,
      response: { 201: IssuedOperatorToken },
    }),
    async (request, reply) => {
      const nowMs = clock.now();
      const token = newOperatorToken(randomBytes);
      const answer = await commit(request, reply, async (db) => {
        const operator = await operatorToChange(db, request.params.id);
        if ((await countLiveTokens(db, operator.id, nowMs)) >= LIVE_TOKENS_MAX) {
          throw new SignetError("LIMIT_EXCEEDED", {
            detail: `An operator may have at most ${LIVE_TOKENS_MAX} valid tokens; revoke one first.`,
          });
        }
        const row = await insertOperatorToken(db, {
          id: newId("operatorToken", nowMs, randomBytes),
          operatorId: operator.id,
          prefix: shownPrefix(token),
          mac: pepper.mac(token),
          macKeyId: pepper.id,
          createdBy: request.operator.id,
          nowMs,
          expiresAtMs: nowMs + (request.body.expires_in_days ?? EXPIRES_IN_DAYS) * DAY_MS,
        });
        const details = { token_id: row.id, expires_at: row.expires_at.toISOString() };
        return {
          answer: { ...toOperatorToken(row), token },
          entry: { tenant: null, target: operator.id, details },
        };
      });
      reply.code(201).header("cache-control", "no-store");
      return answer;
    },
  );
}

function registerList(server: SignetServer, { pool }: AdminServices): void {
  server.get(
    "/admin/v1/operators/:id/tokens",
    operation({
      id: "listOperatorTokens",
      tag: "operators",
      operator: "read",
      summary: "List an operator's tokens",
      description: "Newest first, without their values.",
      params: IdParams("operator"),
      querystring: Closed(PageQuery),
      response: { 200: Page(OperatorToken) },
    }),
    async (request) => {
      const operator = found(await findOperator(pool, request.params.id), "operator");
      const page = readPage(request);
      return toPage((await listOperatorTokens(pool, operator.id, page)).map(toOperatorToken), page);
    },
  );
}

function registerRevocation(server: SignetServer, { commit, clock, bootstrap }: AdminServices): void {
  server.delete(
    "/admin/v1/operators/:id/tokens/:token_id",
    operation({
      id: "revokeOperatorToken",
      tag: "operators",
      operator: "security",
      audits: "operator.token_revoked",
      summary: "Revoke an operator's token",
      description:
        "Takes effect at once and permanently. The last token or certificate that can appoint operators cannot be revoked.",
      errors: ["INVALID_STATE"],
      params: Closed({ id: Id("operator"), token_id: Id("operatorToken") }),
      response: { 204: Type.Null() },
    }),
    async (request, reply) => {
      const nowMs = clock.now();
      const { id, token_id: tokenId } = request.params;
      await commit(request, reply, async (db) => {
        await lockOperators(db);
        const token = found(await findOperatorToken(db, id, tokenId), "token");
        if (token.revoked_at !== null) {
          return { answer: null };
        }
        await revokeOperatorToken(db, token.id, nowMs);
        if (!bootstrap) {
          await requireWayIn(db, nowMs);
        }
        return { answer: null, entry: { tenant: null, target: id, details: { token_id: token.id } } };
      });
      return await reply.code(204).send(null);
    },
  );
}
