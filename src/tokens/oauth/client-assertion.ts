/** private_key_jwt: a client that signs a short-lived assertion with a key that it has registered (RFC 7523 sections 2.2, 3). */
import { createHash, generateKeyPairSync, type KeyObject } from "node:crypto";
import { decodeJwt, decodeProtectedHeader, jwtVerify } from "jose";
import type { ClientRecord } from "../../database/repositories/tokens/clients.ts";
import type { UsedAssertion } from "../../database/repositories/tokens/workload-credentials.ts";
import type { Clock } from "../../domain/clock.ts";
import { algorithmsOf, openClientKey } from "./client-keys.ts";

/** `client_assertion_type`. */
export const JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/** An assertion may end this far ahead: so long is its use remembered. */
const LIFETIME_MAX_SECONDS = 300;
const CLOCK_SKEW_SECONDS = 5;
const ASSERTION_LENGTH_MAX = 4_096;
const JTI = /^[\x21-\x7e]{1,255}$/;

/** Whether the assertion is this client's, good now, for us, and new. */
export type VerifyAssertion = (client: ClientRecord | undefined, assertion: string) => Promise<boolean>;

export interface AssertionOptions {
  /** Our names: the issuer and the addresses of the token endpoint. */
  readonly audiences: readonly string[];
  /** Notes the use; `false` when there was one before. */
  readonly use: (used: UsedAssertion) => Promise<boolean>;
  readonly clock: Clock;
}

/** Who the assertion claims to be from; nothing of it is verified. */
export function claimedClientId(assertion: string): string | undefined {
  try {
    return decodeJwt(assertion).sub;
  } catch {
    return undefined;
  }
}

interface Candidate {
  readonly key: KeyObject;
  readonly algorithms: readonly string[];
}

function registeredKey({ jwks }: ClientRecord, assertion: string): Candidate | undefined {
  const { kid } = decodeProtectedHeader(assertion);
  const keys = jwks?.keys ?? [];
  const jwk = kid === undefined && keys.length === 1 ? keys[0] : keys.find((key) => key["kid"] === kid);
  return jwk === undefined ? undefined : { key: openClientKey(jwk), algorithms: algorithmsOf(jwk) };
}

/** Makes the check. */
export function createAssertionVerifier({ audiences, use, clock }: AssertionOptions): VerifyAssertion {
  // Unknown clients cost a check as well.
  const nobody = { key: generateKeyPairSync("ec", { namedCurve: "P-256" }).publicKey, algorithms: ["ES256"] };

  async function check(
    client: ClientRecord | undefined,
    assertion: string,
  ): Promise<UsedAssertion | undefined> {
    const { key, algorithms } = (client && registeredKey(client, assertion)) ?? nobody;
    const { payload } = await jwtVerify(assertion, key, {
      algorithms: [...algorithms],
      audience: [...audiences],
      requiredClaims: ["iss", "sub", "aud", "exp", "jti"],
      clockTolerance: CLOCK_SKEW_SECONDS,
      currentDate: new Date(clock.now()),
    });
    const { aud, exp = 0, iss, jti = "", sub } = payload;
    const soon = exp * 1_000 <= clock.now() + (LIFETIME_MAX_SECONDS + CLOCK_SKEW_SECONDS) * 1_000;
    // An assertion that names others too could be played to us by one of them.
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
      expiresAt: (exp + CLOCK_SKEW_SECONDS) * 1_000,
    };
  }

  return async (client, assertion) => {
    if (assertion.length > ASSERTION_LENGTH_MAX) {
      return false;
    }
    // Whatever is wrong with it, it is not good.
    const used = await check(client, assertion).catch(() => undefined);
    return used !== undefined && (await use(used));
  };
}
