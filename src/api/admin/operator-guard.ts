import { createHash, timingSafeEqual } from "node:crypto";
import type { onRequestAsyncHookHandler } from "fastify";
import type { OperatorRole } from "../../domain/operator-roles.ts";
import { tokenRefused } from "../../oauth/bearer-errors.ts";
import { roleViolation } from "../../operators/operator-errors.ts";
import { BOOTSTRAP_OPERATOR } from "../../operators/operator-identity.ts";
import { bearerToken, operationOf } from "../plugins/authentication.ts";

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** The guards of operators' routes: the operator token, compared by digest in constant time, then the role. */
export function createOperatorGuard(
  operatorToken: string,
): (required: OperatorRole) => onRequestAsyncHookHandler {
  const expected = digest(operatorToken);
  return (required) => async (request) => {
    if (!timingSafeEqual(digest(bearerToken(request)), expected)) {
      throw tokenRefused("TOKEN_INVALID", "The operator token is not right.");
    }
    request.operator = BOOTSTRAP_OPERATOR;
    const violation = roleViolation(operationOf(request), required, request.operator);
    if (violation !== undefined) {
      throw violation;
    }
  };
}
