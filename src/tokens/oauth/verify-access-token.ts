/** Verifies access tokens: RFC 7515 and 7519, and the further rules of security decisions A. */
import type { Clock } from "#domain/clock.ts";
import { type Identity, TOKEN_LIFETIME_SECONDS } from "#domain/identity.ts";
import { tokenRefused } from "#http/bearer-errors.ts";
import type { KeyLookup, KeyStore } from "../signing-keys/key-store.ts";
import type { VerificationKey } from "../signing-keys/signing-key.ts";
import { checkTimes, isSignedWith, readSignedToken, TokenFault } from "./signed-token.ts";
import { VerifiedTokens, type VerifiedToken } from "./verified-tokens.ts";

const TOKEN_FORM = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/;
const TYPE = /^(?:application\/)?at\+jwt$/i;
/** Maximum length of a token, in characters. */
export const TOKEN_LENGTH_MAX = 4_096;
const CLOCK_SKEW_SECONDS = 5;
/** A key inside a token is never used, and a token with one is rejected. */
const FORBIDDEN_HEADERS = ["jwk", "jku", "x5u", "x5c", "crit"] as const;
const STRING_CLAIMS = ["sub", "aud", "client_id", "scope", "jti", "tenant", "region", "prn", "cid"] as const;

/**
 * Verifies an access token. Rejects with `TOKEN_INVALID`, `TOKEN_EXPIRED` or `TOKEN_REVOKED`. Returns synchronously if
 * the token is cached, as for nearly every request: a promise for each would be measurable.
 */
export type VerifyToken = (token: string) => Identity | Promise<Identity>;

export interface TokenVerifierOptions {
  readonly issuer: string;
  /** Accepted audiences. Several are only for introspection, never for admitting requests. */
  readonly audience: string | readonly string[];
  readonly keys: Pick<KeyStore, "verificationKey">;
  readonly clock: Clock;
}

/** Returns the thumbprint of `cnf`. An unknown confirmation must not count as none (RFC 7800 section 3.1). */
function boundThumbprint(confirmation: unknown): string | undefined {
  if (confirmation === undefined) {
    return undefined;
  }
  const thumbprint = (confirmation as Readonly<Record<string, unknown>> | null)?.["x5t#S256"];
  if (typeof thumbprint !== "string") {
    throw new TokenFault("claim cnf");
  }
  return thumbprint;
}

/** Returns the identity of a token's claims. @throws TokenFault */
function identityOf(payload: Readonly<Record<string, unknown>>, kid: string): Identity {
  for (const name of STRING_CLAIMS) {
    // `aud` may be an array (RFC 7519 section 4.1.3), but our tokens have one audience.
    if (typeof payload[name] !== "string") {
      throw new TokenFault(`claim ${name}`);
    }
  }
  const text = payload as Record<(typeof STRING_CLAIMS)[number], string>;
  return {
    tenantId: text.tenant,
    principalId: text.prn,
    credentialId: text.cid,
    clientId: text.client_id,
    scopes: new Set(text.scope === "" ? [] : text.scope.split(" ")),
    region: text.region,
    jti: text.jti,
    kid,
    issuedAt: payload["iat"] as number,
    certificateThumbprint: boundThumbprint(payload["cnf"]),
  };
}

const NOT_VALID = "The access token is invalid.";

function asRefusal(error: unknown): unknown {
  if (!(error instanceof TokenFault)) {
    return error;
  }
  return error.expired
    ? tokenRefused("TOKEN_EXPIRED", "The access token has expired.", error)
    : tokenRefused("TOKEN_INVALID", NOT_VALID, error);
}

/** Returns the key id. Rejects headers that would bring in a key of the token's own. */
function keyIdOf(header: Readonly<Record<string, unknown>>): string {
  const { kid, typ } = header;
  if (typeof kid !== "string" || FORBIDDEN_HEADERS.some((name) => name in header)) {
    throw new TokenFault("header");
  }
  if (typeof typ !== "string" || !TYPE.test(typ)) {
    throw new TokenFault("header typ");
  }
  return kid;
}

/** A token of this deployment, which may have expired or been revoked. */
export interface OwnToken {
  readonly identity: Identity;
  /** `exp`, in Unix milliseconds. */
  readonly expiresAt: number;
}

/**
 * Verifies that this deployment issued a token, whenever that was: for revoking one that leaked. Never admit a request
 * by it.
 *
 * @param findKey finds the public half of any key that ever signed, also of a revoked one
 * @returns undefined for any other text
 */
export async function readOwnToken(
  text: string,
  issuer: string,
  findKey: (kid: string) => Promise<VerificationKey | undefined>,
): Promise<OwnToken | undefined> {
  if (!isTokenText(text)) {
    return undefined;
  }
  try {
    const token = readSignedToken(text);
    const { header, payload } = token;
    const kid = keyIdOf(header);
    const found = await findKey(kid);
    if (found === undefined || header["alg"] !== found.alg || !isSignedWith(token, found.alg, found.key)) {
      return undefined;
    }
    const { iss, iat, exp } = payload;
    if (iss !== issuer || typeof iat !== "number" || typeof exp !== "number") {
      return undefined;
    }
    return { identity: identityOf(payload, kid), expiresAt: exp * 1_000 };
  } catch (error) {
    if (error instanceof TokenFault) {
      return undefined;
    }
    throw error;
  }
}

/** Whether the text has the form of a token. */
export function isTokenText(text: string): boolean {
  return text.length <= TOKEN_LENGTH_MAX && TOKEN_FORM.test(text);
}

/** Creates the verifier. */
export function createTokenVerifier(options: TokenVerifierOptions): VerifyToken {
  const { issuer, keys, clock } = options;
  const audience = new Set<unknown>([options.audience].flat());
  const verified = new VerifiedTokens<Identity>();

  async function verify(text: string): Promise<VerifiedToken<Identity>> {
    const token = readSignedToken(text);
    const { header, payload } = token;
    const kid = keyIdOf(header);
    const found = await keys.verificationKey(kid);
    if (found === undefined) {
      throw new TokenFault("no such key");
    }
    if (found === "revoked") {
      throw tokenRefused("TOKEN_REVOKED", "The key that signed the access token has been revoked.");
    }
    // The key determines the algorithm, not the token (RFC 8725 section 3.1).
    if (header["alg"] !== found.alg || !isSignedWith(token, found.alg, found.key)) {
      throw new TokenFault("signature");
    }
    if (payload["iss"] !== issuer || !audience.has(payload["aud"])) {
      throw new TokenFault("issuer or audience");
    }
    const claims = identityOf(payload, kid);
    const expiresAt = checkTimes(payload, {
      nowMs: clock.now(),
      skewSeconds: CLOCK_SKEW_SECONDS,
      maxAgeSeconds: TOKEN_LIFETIME_SECONDS + CLOCK_SKEW_SECONDS,
    });
    return { claims, kid, expiresAt };
  }

  async function verifyAnew(token: string): Promise<Identity> {
    if (!isTokenText(token)) {
      throw tokenRefused("TOKEN_INVALID", NOT_VALID);
    }
    try {
      const fresh = await verify(token);
      verified.set(token, fresh);
      return fresh.claims;
    } catch (error) {
      throw asRefusal(error);
    }
  }

  async function askedOfKey(
    { claims }: VerifiedToken<Identity>,
    key: Promise<KeyLookup>,
    token: string,
  ): Promise<Identity> {
    return typeof (await key) === "object" ? claims : await verifyAnew(token);
  }

  return (token) => {
    const known = token.length > TOKEN_LENGTH_MAX ? undefined : verified.get(token, clock.now());
    if (known !== undefined) {
      // A key id is the key's thumbprint, so a published key with this id is the one that verified the token.
      const key = keys.verificationKey(known.kid);
      if (key instanceof Promise) {
        return askedOfKey(known, key, token);
      }
      if (typeof key === "object") {
        return known.claims;
      }
    }
    return verifyAnew(token);
  };
}
