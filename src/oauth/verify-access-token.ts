/** Checks access tokens: jose does RFC 7515 and 7519; what it lets pass and we do not, security decisions A list. */
import type { KeyObject } from "node:crypto";
import { errors, type JWTHeaderParameters, type JWTPayload, jwtVerify } from "jose";
import type { SigningAlgorithm } from "../database/repositories/signing-keys.ts";
import type { Clock } from "../domain/clock.ts";
import { TOKEN_LIFETIME_SECONDS } from "./access-token.ts";
import { tokenRefused } from "./bearer-errors.ts";
import type { KeyLookup } from "./key-store.ts";
import { createVerifiedTokens, type VerifiedToken } from "./verified-tokens.ts";

const TOKEN_FORM = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/;
const TOKEN_LENGTH_MAX = 4_096;
const CLOCK_SKEW_SECONDS = 5;
/** Those of signing keys; which of them a token must have is its key's to say. */
const ALGORITHMS: SigningAlgorithm[] = ["ES256", "RS256", "Ed25519"];
/** A key that a token brings along is never looked at; a token that tries is refused. */
const FORBIDDEN_HEADERS = ["jwk", "jku", "x5u", "x5c", "crit"] as const;
const STRING_CLAIMS = ["sub", "aud", "client_id", "scope", "jti", "tenant", "region", "prn", "cid"] as const;

/** Who calls, as the access token says. */
export interface Identity {
  readonly tenantId: string;
  readonly principalId: string;
  readonly credentialId: string;
  readonly clientId: string;
  readonly scopes: ReadonlySet<string>;
  readonly region: string;
  readonly jti: string;
  /** The key that signed the token. */
  readonly kid: string;
  /** `x5t#S256` of the certificate that the token is bound to (RFC 8705); absent when it is bound to none. */
  readonly certificateThumbprint: string | undefined;
}

/** Checks an access token; rejects with `TOKEN_INVALID`, `TOKEN_EXPIRED` or `TOKEN_REVOKED`. */
export type VerifyToken = (token: string) => Promise<Identity>;

export interface TokenVerifierOptions {
  readonly issuer: string;
  /** Ours; several only for questions about tokens, never to let requests in. */
  readonly audience: string | readonly string[];
  readonly verificationKey: (kid: string) => Promise<KeyLookup>;
  readonly clock: Clock;
}

/** A confirmation that we do not understand must not pass for none (RFC 7800 section 3.1). */
function boundThumbprint(confirmation: unknown): string | undefined {
  if (confirmation === undefined) {
    return undefined;
  }
  const thumbprint = (confirmation as Readonly<Record<string, unknown>> | null)?.["x5t#S256"];
  if (typeof thumbprint !== "string") {
    throw new errors.JWTInvalid("claim cnf");
  }
  return thumbprint;
}

function identityOf(payload: JWTPayload, kid: string): Identity {
  const claims = payload as Record<(typeof STRING_CLAIMS)[number], unknown>;
  for (const name of STRING_CLAIMS) {
    // jose takes an array for aud; a token of ours has one audience.
    if (typeof claims[name] !== "string") {
      throw new errors.JWTInvalid(`claim ${name}`);
    }
  }
  const text = claims as Record<(typeof STRING_CLAIMS)[number], string>;
  return {
    tenantId: text.tenant,
    principalId: text.prn,
    credentialId: text.cid,
    clientId: text.client_id,
    scopes: new Set(text.scope === "" ? [] : text.scope.split(" ")),
    region: text.region,
    jti: text.jti,
    kid,
    certificateThumbprint: boundThumbprint(payload.cnf),
  };
}

const NOT_VALID = "The access token is not valid.";

function asRefusal(error: unknown): unknown {
  if (error instanceof errors.JWTExpired) {
    return tokenRefused("TOKEN_EXPIRED", "The access token has expired.", error);
  }
  return error instanceof errors.JOSEError ? tokenRefused("TOKEN_INVALID", NOT_VALID, error) : error;
}

/** Makes the check. */
export function createTokenVerifier(options: TokenVerifierOptions): VerifyToken {
  const { issuer, verificationKey, clock } = options;
  const audience = [options.audience].flat();
  const verified = createVerifiedTokens<Identity>();

  async function keyFor(header: JWTHeaderParameters): Promise<KeyObject> {
    const { kid } = header;
    if (typeof kid !== "string" || FORBIDDEN_HEADERS.some((name) => name in header)) {
      throw new errors.JWTInvalid("header");
    }
    const found = await verificationKey(kid);
    if (found === undefined) {
      throw new errors.JWKSNoMatchingKey();
    }
    if (found === "revoked") {
      throw tokenRefused("TOKEN_REVOKED", "The key that signed the access token has been revoked.");
    }
    // One algorithm per key: what the token says of itself decides nothing (RFC 8725 section 3.1).
    if (header.alg !== found.alg) {
      throw new errors.JOSEAlgNotAllowed();
    }
    return found.key;
  }

  async function verify(token: string): Promise<VerifiedToken<Identity>> {
    const { payload, protectedHeader } = await jwtVerify(token, keyFor, {
      algorithms: ALGORITHMS,
      typ: "at+jwt",
      issuer,
      audience,
      requiredClaims: ["exp", "iat", ...STRING_CLAIMS],
      clockTolerance: CLOCK_SKEW_SECONDS,
      maxTokenAge: TOKEN_LIFETIME_SECONDS + CLOCK_SKEW_SECONDS,
      currentDate: new Date(clock.now()),
    });
    const kid = protectedHeader.kid ?? "";
    const expiresAt = ((payload.exp ?? 0) + CLOCK_SKEW_SECONDS) * 1_000;
    return { claims: identityOf(payload, kid), kid, expiresAt };
  }

  return async (token) => {
    if (token.length > TOKEN_LENGTH_MAX || !TOKEN_FORM.test(token)) {
      throw tokenRefused("TOKEN_INVALID", NOT_VALID);
    }
    const known = verified.get(token);
    // A key id is the key's thumbprint: while it is published, it is the key that checked the token.
    if (
      known !== undefined &&
      clock.now() < known.expiresAt &&
      typeof (await verificationKey(known.kid)) === "object"
    ) {
      return known.claims;
    }
    try {
      const fresh = await verify(token);
      verified.set(token, fresh);
      return fresh.claims;
    } catch (error) {
      throw asRefusal(error);
    }
  };
}
