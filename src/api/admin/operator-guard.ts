import type { FastifyRequest, onRequestAsyncHookHandler } from "fastify";
import type { OperatorRole } from "../../domain/operator-roles.ts";
import type { OperatorAuthentication, OperatorAuthenticator } from "../../operators/authenticate-operator.ts";
import type { FailedAuthentications } from "../../operators/failed-authentications.ts";
import { roleViolation } from "../../operators/operator-errors.ts";
import { bearerToken, operationOf } from "../plugins/authentication.ts";

/** How operators are told from everybody else. */
export interface OperatorAccess {
  readonly authenticator: OperatorAuthenticator;
  readonly failures: FailedAuthentications;
}

/** By the token when one came, else by the certificate; `TOKEN_MISSING` without either. */
async function authenticate(
  request: FastifyRequest,
  authenticator: OperatorAuthenticator,
): Promise<OperatorAuthentication> {
  const { clientCertificate } = request;
  if (request.headers.authorization === undefined && clientCertificate !== undefined) {
    return await authenticator.byCertificate(clientCertificate);
  }
  return await authenticator.byToken(bearerToken(request));
}

/** The guards of operators' routes: who calls, then whether the role suffices. */
export function createOperatorGuard(
  access: OperatorAccess,
): (required: OperatorRole) => onRequestAsyncHookHandler {
  const { authenticator, failures } = access;
  return (required) => async (request) => {
    const { clientAddress } = request;
    failures.check(clientAddress);
    const authentication = await authenticate(request, authenticator);
    if ("refusal" in authentication) {
      failures.fail(clientAddress);
      throw authentication.refusal.error;
    }
    failures.succeed(clientAddress);
    request.operator = authentication.identity;
    const violation = roleViolation(operationOf(request), required, authentication.identity);
    if (violation !== undefined) {
      throw violation;
    }
  };
}
