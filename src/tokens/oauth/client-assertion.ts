/** private_key_jwt: a client signs a short-lived assertion with a registered key (RFC 7523 sections 2.2, 3). */
import { createHash, generateKeyPairSync, type KeyObject } from "node:crypto";
import { compactVerify, decodeJwt, decodeProtectedHeader } from "jose";
import type { ClientRecord } from "#database/repositories/tokens/clients.ts";
import type { UsedAssertion } from "#database/repositories/tokens/workload-credentials.ts";
import type { Clock } from "#domain/clock.ts";
import { isClientId } from "../credentials/secret-format.ts";
import { algorithmsOf, openClientKey } from "./client-keys.ts";

/** `client_assertion_type`. */
export const JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/** Longest time until an assertion expires, as in FAPI 2.0 and stock clients. Its use is remembered for as long. */
const LIFETIME_MAX_SECONDS = 3_600;
const CLOCK_SKEW_SECONDS = 5;
/** How far a client's clock may be ahead. */
const CLIENT_AHEAD_SECONDS = 30;
const ASSERTION_LENGTH_MAX = 4_096;
const JTI = /^[\x21-\x7e]{1,255}$/;

/**
 * Checks that the assertion is from this client, valid now, meant for us, and unused.
 *
 * @returns `true`, or what is wrong with it. `undefined`: it has no valid signature of this client, which learns no more
 */
export type VerifyAssertion = (
  client: ClientRecord | undefined,
  assertion: string,
) => Promise<true | string | undefined>;

export interface AssertionOptions {
  /** Our names: the issuer and the URLs of the token endpoint. */
  readonly audiences: readonly string[];
  /** Permitted algorithms. */
  readonly algorithms: readonly string[];
  /** Records the use; `false` if the assertion was used before. */
  readonly use: (used: UsedAssertion) => Promise<boolean>;
  readonly clock: Clock;
}

/** Returns the client that the assertion claims to be from, unverified. */
export function claimedClientId(assertion: string): string | undefined {
  try {
    const { sub }: Readonly<Record<string, unknown>> = decodeJwt(assertion);
    return typeof sub === "string" && isClientId(sub) ? sub : undefined;
  } catch {
    return undefined;
  }
}

interface Candidate {
  readonly key: KeyObject;
  readonly algorithms: readonly string[];
}

function registeredKey(
  { jwks }: ClientRecord,
  assertion: string,
  permitted: readonly string[],
): Candidate | undefined {
  const { kid } = decodeProtectedHeader(assertion);
  const keys = jwks?.keys ?? [];
  const jwk = kid === undefined && keys.length === 1 ? keys[0] : keys.find((key) => key["kid"] === kid);
  return jwk === undefined
    ? undefined
    : { key: openClientKey(jwk), algorithms: algorithmsOf(jwk, permitted) };
}

type Claims = Readonly<Record<string, unknown>>;

/** Returns what is wrong with the times of an assertion. */
function timeProblem({ exp, nbf, iat }: Claims, now: number): string | undefined {
  if (typeof exp !== "number") {
    return "exp is not a number of seconds";
  }
  if (exp <= now - CLOCK_SKEW_SECONDS) {
    return "exp is in the past";
  }
  // From its issue, by a clock that is ahead.
  if (exp > now + LIFETIME_MAX_SECONDS + CLIENT_AHEAD_SECONDS) {
    return `exp is more than ${LIFETIME_MAX_SECONDS} seconds ahead`;
  }
  const early = Object.entries({ nbf, iat }).find(
    ([, at]) => at !== undefined && !(typeof at === "number" && at <= now + CLIENT_AHEAD_SECONDS),
  );
  return early && `${early[0]} is not a number of seconds, or is in the future`;
}

/** Returns what is wrong with the claims of an assertion whose signature is the client's. */
function claimProblem(
  claims: Claims,
  clientId: string,
  audiences: readonly string[],
  now: number,
): string | undefined {
  const { aud, iss, jti, sub } = claims;
  const named = Object.entries({ iss, sub }).find(([, name]) => name !== clientId);
  if (named !== undefined) {
    return `${named[0]} is not the client_id`;
  }
  const receivers: readonly unknown[] = [aud].flat();
  // Another audience of the same assertion could replay it to us.
  if (receivers.length === 0 || !receivers.every((name) => audiences.includes(name as string))) {
    return `aud is not ${audiences.join(" or ")} alone`;
  }
  if (typeof jti !== "string" || !JTI.test(jti)) {
    return "jti is not 1 to 255 printable characters";
  }
  return timeProblem(claims, now);
}

/** Creates the verifier of assertions. */
export function createAssertionVerifier({
  audiences,
  algorithms: permitted,
  use,
  clock,
}: AssertionOptions): VerifyAssertion {
  // A check with a dummy key takes as long for unknown clients.
  const nobody = { key: generateKeyPairSync("ec", { namedCurve: "P-256" }).publicKey, algorithms: ["ES256"] };

  /** Returns the claims; undefined if no key of the client has signed them. Any error means that it is invalid. */
  async function signedClaims(
    client: ClientRecord | undefined,
    assertion: string,
  ): Promise<Claims | undefined> {
    try {
      const { key, algorithms } = (client && registeredKey(client, assertion, permitted)) ?? nobody;
      const { payload, protectedHeader } = await compactVerify(assertion, key, {
        algorithms: [...algorithms],
      });
      // No extension is known, also none that would change how the payload is read.
      return protectedHeader.crit !== undefined
        ? undefined
        : (JSON.parse(Buffer.from(payload).toString()) as Claims);
    } catch {
      return undefined;
    }
  }

  return async (client, assertion) => {
    const claims =
      assertion.length > ASSERTION_LENGTH_MAX ? undefined : await signedClaims(client, assertion);
    if (client === undefined || typeof claims !== "object" || claims === null) {
      return undefined;
    }
    const problem = claimProblem(claims, client.client_id, audiences, clock.now() / 1_000);
    if (problem !== undefined) {
      return problem;
    }
    const { exp, jti } = claims as { readonly exp: number; readonly jti: string };
    const isFirst = await use({
      credentialId: client.credential_id,
      tenantId: client.tenant_id,
      jtiDigest: createHash("sha256").update(jti).digest(),
      // An api whose clock is behind accepts it for longer, and one whose clock is ahead forgets it.
      expiresAt: (exp + 3 * CLOCK_SKEW_SECONDS) * 1_000,
    });
    return isFirst || "jti was used before";
  };
}
