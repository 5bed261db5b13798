import type { FastifyRequest, onRequestAsyncHookHandler } from "fastify";
import type { OperatorRole } from "#domain/operator-roles.ts";
import type { InProcessCalls } from "../in-process.ts";
import { type ErrorCode, SignetError } from "#domain/errors.ts";
import type { ClientCertificate } from "#http/mutual-tls/client-certificate.ts";
import type { ClientIdentification } from "#http/mutual-tls/client-identification.ts";
import type {
  OperatorAuthentication,
  OperatorAuthenticator,
} from "#tokens/operators/authenticate-operator.ts";
import { roleViolation } from "#tokens/operators/operator-errors.ts";
import type { OperatorIdentity } from "#domain/identity.ts";
import type { NoteRefusal } from "#tokens/operators/refusal-audit.ts";
import { networksOf } from "#http/rate-limits/address-key.ts";
import type { FailureLimiter } from "#http/rate-limits/failure-limiter.ts";
import { bearerToken, operationOf } from "#tokens/guards/authentication.ts";

/** The services that authenticate operators. */
export interface OperatorAccess {
  readonly authenticator: OperatorAuthenticator;
  /** Limits failed attempts per address. */
  readonly failures: FailureLimiter;
  readonly noteRefusal: NoteRefusal;
}

type Guard = onRequestAsyncHookHandler;

/**
 * Rejects cross-site requests that authenticate by certificate alone. A browser presents its certificate on requests
 * from any page, and suspending a tenant needs neither a body nor a preflight.
 *
 * @throws SignetError INVALID_REQUEST
 */
function requireNoForeignPage({ headers }: FastifyRequest): void {
  const site = headers["sec-fetch-site"] ?? (headers.origin === undefined ? "none" : "cross-site");
  if (site !== "none" && site !== "same-origin") {
    throw new SignetError("INVALID_REQUEST", {
      detail: "Pages of other origins cannot use an operator's certificate; send a token.",
    });
  }
}

/** Authenticates by the token if present, otherwise by the certificate. @throws SignetError TOKEN_MISSING */
async function authenticate(
  request: FastifyRequest,
  certificate: ClientCertificate | undefined,
  authenticator: OperatorAuthenticator,
): Promise<OperatorAuthentication> {
  if (request.headers.authorization === undefined && certificate !== undefined) {
    requireNoForeignPage(request);
    return await authenticator.byCertificate(certificate);
  }
  return await authenticator.byToken(bearerToken(request));
}

/**
 * Checks during a long response that the operator still has the required role. Also checks the certificate again, which
 * may have been revoked or have expired.
 */
export async function isStillAllowed(
  request: FastifyRequest,
  {
    access: { authenticator },
    clients,
  }: { readonly access: Pick<OperatorAccess, "authenticator">; readonly clients: ClientIdentification },
  required: OperatorRole,
): Promise<boolean> {
  const { certificate } = clients.identify(request.raw);
  const authentication = await authenticate(request, certificate, authenticator);
  return (
    "identity" in authentication &&
    roleViolation(operationOf(request), required, authentication.identity) === undefined
  );
}

type Admitted = Extract<OperatorAuthentication, { readonly identity: OperatorIdentity }>;

async function note(
  { noteRefusal }: OperatorAccess,
  request: FastifyRequest,
  code: ErrorCode,
  operatorId: string | null,
): Promise<void> {
  const { id: requestId, clientAddress: address } = request;
  await noteRefusal({ code, operatorId, operation: operationOf(request), address, requestId });
}

/**
 * Identifies an operator. Failures are limited by address and recorded.
 *
 * @param check authenticates the request, by default as the operators' API does
 * @throws SignetError the reason of the refusal
 */
export async function identifyOperator(
  access: OperatorAccess,
  request: FastifyRequest,
  check: () => Promise<OperatorAuthentication> = async () =>
    await authenticate(request, request.clientCertificate, access.authenticator),
): Promise<Admitted> {
  const { failures } = access;
  const networks = networksOf(request.clientAddress);
  const authentication = await failures.check(networks, check);
  if ("refusal" in authentication) {
    const { operatorId } = authentication.refusal;
    // Authenticate before counting, so that a valid operator is admitted even if its address is limited.
    const error = failures.failed(networks) ?? authentication.refusal.error;
    await note(access, request, error.code, operatorId);
    throw error;
  }
  failures.succeeded(networks);
  return authentication;
}

/** Checks that the request's operator has a role. @throws SignetError SCOPE_VIOLATION, which is recorded */
export async function requireRole(
  access: OperatorAccess,
  request: FastifyRequest,
  required: OperatorRole,
): Promise<void> {
  const violation = roleViolation(operationOf(request), required, request.operator);
  if (violation !== undefined) {
    await note(access, request, violation.code, request.operator.id);
    throw violation;
  }
}

/**
 * Creates the guards of operators' routes, which authenticate the operator and check its role.
 *
 * @param calls the console's in-process calls, whose operators' sessions are checked already
 */
export function createOperatorGuard(
  access: OperatorAccess,
  calls: InProcessCalls<OperatorIdentity>,
): (required: OperatorRole) => Guard {
  return (required) => async (request) => {
    request.operator = calls.identityOf(request.raw) ?? (await identifyOperator(access, request)).identity;
    await requireRole(access, request, required);
  };
}
