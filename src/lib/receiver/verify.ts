/**
 * Verification of a signed payload by its receiver: a webhook consumer, or the service's own ingress.
 *
 * This closes two gaps of the signature alone. `sha256=` covers only the body, so
 * an attacker with one captured delivery could replay it with new timestamps and event ids. The
 * signed body must therefore contain the time too (`sent_at`), and the id.
 */
import { timingSafeEqual } from "node:crypto";
import { types } from "node:util";
import { isPublicKey, verifyAsymmetric } from "./ed25519.ts";
import { VerificationError } from "./errors.ts";
import type { HeaderSource, SignedHeaders } from "./headers.ts";
import { readSignedHeaders } from "./headers.ts";
import { decodeSecret, readSecrets } from "./secret.ts";
import { signBody, signMessage } from "./sign.ts";

/** The payload and the verification options. */
export interface VerifyInput {
  /** The received bytes: never a parsed and re-serialised body. */
  readonly rawBody: Uint8Array;
  readonly headers: HeaderSource;
  /** The endpoint's secret, or its public key `whpk_…`; during a rotation the old and the new one, as a list. */
  readonly secrets: string | readonly string[];
  /** Unix time in milliseconds, as `Date.now()` gives it. */
  readonly now: number;
  /** Maximum accepted age, in seconds; 300. */
  readonly toleranceSeconds?: number;
  /** How far the sender's clock may be ahead, in seconds; 60. */
  readonly futureSeconds?: number;
  /** The word for "Service" in the header names. */
  readonly headerBrand?: string;
}

/** `v1` and `v1a` cover time, id and body. */
type Scheme = "sha256" | "v1" | "v1a";

/** A verified payload. */
export interface VerifiedPayload {
  /** The authenticated event id, for dropping duplicates; null if the sender signed none. */
  readonly id: string | null;
  /** When it was signed, in Unix seconds. */
  readonly timestampSeconds: number;
  /** The signature that matched. */
  readonly scheme: Scheme;
  /**
   * The parsed body; undefined if it is not JSON. Its numbers are doubles: 2^53 + 1 and 1.0 have changed, and 1e400 is
   * infinite. `rawBody` has them as they were published.
   */
  readonly payload: unknown;
  /** The received bytes. */
  readonly rawBody: Uint8Array;
}

/** How old a signature may be by default. */
export const DEFAULT_TOLERANCE_SECONDS = 300;
const DEFAULT_FUTURE_SECONDS = 60;

/** Length first: `timingSafeEqual` requires it, and a prefix of a signature must be rejected. */
function equalText(left: string, right: string): boolean {
  const a = Buffer.from(left);
  const b = Buffer.from(right);
  return a.length === b.length && timingSafeEqual(a, b);
}

function matchingScheme(headers: SignedHeaders, secrets: readonly string[], body: Uint8Array): Scheme | null {
  const { standard } = headers;
  let match: Scheme | null = null;
  for (const secret of secrets) {
    if (isPublicKey(secret)) {
      if (matchesPublicKey(standard, secret, body)) {
        return "v1a";
      }
      continue;
    }
    const key = decodeSecret(secret);
    if (standard !== null && standard.v1.length > 0) {
      const expected = signMessage(key, { id: standard.id, timestamp: standard.timestamp, body });
      // v1 also covers time and id, so it is stronger if both match.
      if (standard.v1.some((value) => equalText(value, expected))) {
        return "v1";
      }
    }
    if (headers.sha256.length > 0) {
      const expected = signBody(secret, body);
      if (headers.sha256.some((value) => equalText(value, expected))) {
        match = "sha256";
      }
    }
  }
  return match;
}

function matchesPublicKey(standard: SignedHeaders["standard"], publicKey: string, body: Uint8Array): boolean {
  // The key is checked even if it verifies nothing.
  const { id = "", timestamp = "", v1a = [] } = standard ?? {};
  const values = v1a.length === 0 ? [`v1a,${Buffer.alloc(64).toString("base64")}`] : v1a;
  return values.some((value) => verifyAsymmetric(publicKey, { id, timestamp, body }, value));
}

function checkAge(timestampSeconds: number, input: VerifyInput): void {
  // Timestamps are whole seconds, so the clock is read in whole seconds: exactly 300 s is accepted.
  const age = Math.floor(input.now / 1000) - timestampSeconds;
  if (!(age <= (input.toleranceSeconds ?? DEFAULT_TOLERANCE_SECONDS))) {
    throw new VerificationError("PAYLOAD_EXPIRED", "the payload is older than the tolerance");
  }
  if (!(-age <= (input.futureSeconds ?? DEFAULT_FUTURE_SECONDS))) {
    throw new VerificationError("TIMESTAMP_MISMATCH", "the timestamp lies in the future");
  }
}

function parseJson(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    return undefined;
  }
}

function memberOf(payload: unknown, name: string): unknown {
  if (typeof payload !== "object" || payload === null || !Object.hasOwn(payload, name)) {
    return undefined;
  }
  return (payload as Record<string, unknown>)[name];
}

/** All times must agree; `sha256=` needs the one inside the signed body. */
function checkSentAt(headers: SignedHeaders, scheme: Scheme, payload: unknown): void {
  const sentAt = memberOf(payload, "sent_at");
  const wrongHeader =
    headers.standard !== null && Number(headers.standard.timestamp) !== headers.timestampSeconds;
  const wrongBody = sentAt === undefined ? scheme === "sha256" : sentAt !== headers.timestampSeconds;
  if (wrongHeader || wrongBody) {
    throw new VerificationError(
      "TIMESTAMP_MISMATCH",
      "the timestamp differs from sent_at of the signed body",
    );
  }
}

/**
 * Returns the authenticated id: the one that `v1` and `v1a` cover, else the one in the body that `sha256=` covers. A
 * differing header was forged to get a duplicate past the receiver.
 */
function checkId(headers: SignedHeaders, scheme: Scheme, payload: unknown): string | null {
  const inBody = memberOf(payload, "id");
  const bodyId = typeof inBody === "string" ? inBody : null;
  const id = scheme === "sha256" ? bodyId : (headers.standard?.id ?? null);
  const claims = [headers.standard?.id ?? null, headers.eventId].filter((claim) => claim !== null);
  if (id !== null && claims.some((claim) => claim !== id)) {
    throw new VerificationError("ID_MISMATCH", "an id header differs from the signed id");
  }
  return id;
}

/**
 * Verifies a payload and returns its authenticated parts. It is then genuine and fresh; the caller must detect
 * duplicates by `id`, kept for at least the tolerance.
 *
 * Checks, in this order: each header once and in its format; a signature by one of the secrets (the body's
 * bytes, constant time); age; future; `sent_at`; id.
 *
 * @example
 * const { payload } = verify({ rawBody, headers: request.headers, secrets: [secret], now: Date.now() });
 *
 * @throws VerificationError with a stable `code`; the payload must then not be used
 * @throws TypeError for a caller's error: no or malformed secrets, a body that is not bytes
 */
export function verify(input: VerifyInput): VerifiedPayload {
  // Not instanceof: test runners give each file classes of its own.
  if (!types.isUint8Array(input.rawBody)) {
    throw new TypeError("rawBody is the raw request body as bytes, before any parsing");
  }
  const secrets = readSecrets(input.secrets);
  const headers = readSignedHeaders(input.headers, input.headerBrand ?? "Service");
  const scheme = matchingScheme(headers, secrets, input.rawBody);
  if (scheme === null) {
    throw new VerificationError("SIGNATURE_INVALID", "no signature matches any of the secrets");
  }
  checkAge(headers.timestampSeconds, input);
  const payload = parseJson(input.rawBody);
  checkSentAt(headers, scheme, payload);
  return {
    id: checkId(headers, scheme, payload),
    timestampSeconds: headers.timestampSeconds,
    scheme,
    payload,
    rawBody: input.rawBody,
  };
}

/**
 * Verifies a payload that must be JSON: no handler gets one that was not parsed.
 *
 * @throws as {@link verify}, and VerificationError for a body that is not JSON
 */
export function verifyParsed(input: VerifyInput): VerifiedPayload {
  const verified = verify(input);
  if (verified.payload === undefined) {
    throw new VerificationError("PAYLOAD_MALFORMED", "the signed body is not JSON");
  }
  return verified;
}
