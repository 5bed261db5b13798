/**
 * Verifies signed tokens (RFC 7515, compact; RFC 7519) on the event loop: handing a signature to a thread costs more
 * than verifying it. A test compares the results with jose's. They may differ only for tokens for which jose is too
 * lenient.
 */
import { isUtf8 } from "node:buffer";
import type { KeyObject } from "node:crypto";
import type { SigningAlgorithm } from "#database/repositories/tokens/signing-keys.ts";
import { verifySignature } from "#lib/jws.ts";

type Members = Readonly<Record<string, unknown>>;

/** A parsed token, not verified. */
export interface SignedToken {
  readonly header: Members;
  readonly payload: Members;
  readonly signature: Buffer;
  /** The signed bytes. */
  readonly signed: Buffer;
}

/** Why a token is invalid. `expired` is set only for tokens that were valid before. */
export class TokenFault extends Error {
  override readonly name = "TokenFault";
  readonly expired: boolean;

  constructor(message: string, expired = false) {
    super(message);
    this.expired = expired;
  }
}

/** Decodes base64url without padding. Rejects any non-canonical spelling. */
function decode(part: string): Buffer {
  const bytes = Buffer.from(part, "base64url");
  if (bytes.toString("base64url") !== part) {
    throw new TokenFault("base64url");
  }
  return bytes;
}

function parseObject(bytes: Buffer): Members {
  let value: unknown;
  if (isUtf8(bytes)) {
    try {
      value = JSON.parse(bytes.toString()) as unknown;
    } catch {
      // Rejected below.
    }
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new TokenFault("JSON object");
  }
  return value as Members;
}

/** Parses a token without verifying it. @throws TokenFault */
export function readSignedToken(token: string): SignedToken {
  const [header, payload, signature, ...rest] = token.split(".");
  if (header === undefined || payload === undefined || signature === undefined || rest.length > 0) {
    throw new TokenFault("three parts");
  }
  return {
    header: parseObject(decode(header)),
    payload: parseObject(decode(payload)),
    signature: decode(signature),
    signed: Buffer.from(`${header}.${payload}`, "latin1"),
  };
}

/** Whether this key signed the token. */
export function isSignedWith(token: SignedToken, alg: SigningAlgorithm, key: KeyObject): boolean {
  return verifySignature(alg, token.signed, key, token.signature);
}

export interface TimeRules {
  readonly nowMs: number;
  readonly skewSeconds: number;
  /** Longest age since `iat`. */
  readonly maxAgeSeconds: number;
}

function seconds(payload: Members, claim: string): number {
  const value = payload[claim];
  if (typeof value !== "number") {
    throw new TokenFault(`claim ${claim}`);
  }
  return value;
}

/**
 * Checks `iat`, `nbf` and `exp` (RFC 7519 section 4.1).
 *
 * @returns the end of the token's validity, in Unix milliseconds
 * @throws TokenFault
 */
export function checkTimes(payload: Members, { nowMs, skewSeconds, maxAgeSeconds }: TimeRules): number {
  const now = Math.floor(nowMs / 1_000);
  const issuedAt = seconds(payload, "iat");
  const expiresAt = seconds(payload, "exp");
  const notBefore = payload["nbf"] === undefined ? issuedAt : seconds(payload, "nbf");
  if (notBefore > now + skewSeconds || issuedAt > now + skewSeconds) {
    throw new TokenFault("not valid yet");
  }
  if (expiresAt <= now - skewSeconds || now - issuedAt - skewSeconds > maxAgeSeconds) {
    throw new TokenFault("expired", true);
  }
  return Math.min(expiresAt + skewSeconds, issuedAt + maxAgeSeconds + skewSeconds) * 1_000;
}
