/** private_key_jwt: a client signs a short-lived assertion with a registered key (RFC 7523 sections 2.2, 3). */
import { createHash, generateKeyPairSync, type KeyObject } from "node:crypto";
import { decodeJwt, decodeProtectedHeader, jwtVerify } from "jose";
import type { ClientRecord } from "../../database/repositories/tokens/clients.ts";
import type { UsedAssertion } from "../../database/repositories/tokens/workload-credentials.ts";
import type { Clock } from "../../domain/clock.ts";
import { isClientId } from "../credentials/secret-format.ts";
import { algorithmsOf, openClientKey } from "./client-keys.ts";

/** `client_assertion_type`. */
export const JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/** Longest time until an assertion expires. Its use is remembered for as long. */
const LIFETIME_MAX_SECONDS = 300;
const CLOCK_SKEW_SECONDS = 5;
const ASSERTION_LENGTH_MAX = 4_096;
const JTI = /^[\x21-\x7e]{1,255}$/;

/** Whether the assertion is from this client, valid now, meant for us, and unused. */
export type VerifyAssertion = (client: ClientRecord | undefined, assertion: string) => Promise<boolean>;

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

/** Creates the verifier of assertions. */
export function createAssertionVerifier({
  audiences,
  algorithms: permitted,
  use,
  clock,
}: AssertionOptions): VerifyAssertion {
  // A check with a dummy key takes as long for unknown clients.
  const nobody = { key: generateKeyPairSync("ec", { namedCurve: "P-256" }).publicKey, algorithms: ["ES256"] };

  async function check(
    client: ClientRecord | undefined,
    assertion: string,
  ): Promise<UsedAssertion | undefined> {
    const { key, algorithms } = (client && registeredKey(client, assertion, permitted)) ?? nobody;
    const { payload } = await jwtVerify(assertion, key, {
      algorithms: [...algorithms],
      audience: [...audiences],
      requiredClaims: ["iss", "sub", "aud", "exp", "jti"],
      clockTolerance: CLOCK_SKEW_SECONDS,
      currentDate: new Date(clock.now()),
    });
    const { aud, exp = 0, iss, jti = "", sub } = payload;
    const soon = exp * 1_000 <= clock.now() + (LIFETIME_MAX_SECONDS + CLOCK_SKEW_SECONDS) * 1_000;
    // Another audience of the same assertion could replay it to us.
    const onlyUs = typeof aud === "string" || aud?.length === 1;
    if (
      client === undefined ||
      iss !== client.clientId ||
      sub !== client.clientId ||
      !soon ||
      !onlyUs ||
      !JTI.test(jti)
    ) {
      return undefined;
    }
    return {
      credentialId: client.credentialId,
      tenantId: client.tenantId,
      jtiDigest: createHash("sha256").update(jti).digest(),
      // An api whose clock is behind accepts it for longer, and one whose clock is ahead forgets it.
      expiresAt: (exp + 3 * CLOCK_SKEW_SECONDS) * 1_000,
    };
  }

  return async (client, assertion) => {
    if (assertion.length > ASSERTION_LENGTH_MAX) {
      return false;
    }
    // Any error means that the assertion is invalid.
    const used = await check(client, assertion).catch(() => undefined);
    return used !== undefined && (await use(used));
  };
}
