import { createHash, timingSafeEqual } from "node:crypto";
import type { onRequestAsyncHookHandler } from "fastify";
import { tokenRefused } from "../../oauth/bearer-errors.ts";
import { bearerToken } from "../plugins/authentication.ts";

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** The guard of operators' routes: the operator token, compared by digest in constant time. */
export function createOperatorGuard(operatorToken: string): onRequestAsyncHookHandler {
  const expected = digest(operatorToken);
  return async (request) => {
    if (!timingSafeEqual(digest(bearerToken(request)), expected)) {
      throw tokenRefused("TOKEN_INVALID", "The operator token is not right.");
    }
  };
}
