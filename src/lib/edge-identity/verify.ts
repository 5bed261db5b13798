/**
 * For upstreams behind the edge: the caller's identity from `X-Signet-Identity`, verified by the edge's signature. Uses
 * only Node's own modules.
 */
import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from "node:crypto";
import { EdgeIdentityError } from "./errors.ts";
import {
  type EdgeIdentity,
  IDENTITY_HEADER,
  IDENTITY_SIGNATURE_HEADER,
  type SignedRequest,
  signedText,
} from "./signature.ts";

export { type EdgeIdentity, EdgeIdentityError, type SignedRequest };
export type { EdgeIdentityErrorCode } from "./errors.ts";

/** Maximum age of an identity, in seconds; an older one is a replay. */
const MAX_AGE_S = 30;
/** How far the edge's clock may be ahead, in seconds. */
const FUTURE_S = 5;
const KEY_BYTES_MIN = 32;
const VALUE_LENGTH_MAX = 16_384;
const SIGNATURE = /^v1=([0-9a-f]{64})$/;
const TEXT_MEMBERS = ["tenant", "principal", "scope", "region", "request_id"] as const;

/** A request of Node's servers. */
export interface IncomingRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

export interface EdgeIdentityOptions {
  /** The upstream's keys, base64 of 32 bytes or more; several while a key is replaced. */
  readonly keys: readonly string[];
  /** Unix milliseconds. */
  readonly now?: () => number;
}

function keyOf(text: string): KeyObject {
  const bytes = Buffer.from(text, "base64");
  if (bytes.length < KEY_BYTES_MIN) {
    throw new TypeError(`an identity key must be at least ${KEY_BYTES_MIN} bytes in base64`);
  }
  return createSecretKey(bytes);
}

function parse(value: string): EdgeIdentity {
  let identity: Partial<Record<keyof EdgeIdentity, unknown>> | null | undefined;
  try {
    identity = JSON.parse(Buffer.from(value, "base64url").toString()) as typeof identity;
  } catch {
    // Rejected below.
  }
  if (
    !TEXT_MEMBERS.every((member) => typeof identity?.[member] === "string") ||
    !Number.isSafeInteger(identity?.iat)
  ) {
    throw new EdgeIdentityError("IDENTITY_MALFORMED", "the identity is not what the edge writes");
  }
  return identity as EdgeIdentity;
}

/**
 * Creates the verifier of requests.
 *
 * @returns a function that returns the caller's identity, or throws {@link EdgeIdentityError}
 * @throws TypeError for invalid keys
 */
export function createEdgeIdentityVerifier(
  options: EdgeIdentityOptions,
): (request: IncomingRequest) => EdgeIdentity {
  const { now = Date.now } = options;
  const keys = options.keys.map(keyOf);
  if (keys.length === 0) {
    throw new TypeError("an identity key is needed");
  }

  return ({ method = "", url: target = "", headers }) => {
    const { [IDENTITY_HEADER]: value, [IDENTITY_SIGNATURE_HEADER]: signature } = headers;
    if (typeof value !== "string" || typeof signature !== "string" || value.length > VALUE_LENGTH_MAX) {
      throw new EdgeIdentityError("IDENTITY_MISSING", "the request does not come from the edge");
    }
    const given = Buffer.from(SIGNATURE.exec(signature)?.[1] ?? "", "hex");
    const text = signedText(value, { method, target });
    const matches = keys.map((key) => {
      const expected = createHmac("sha256", key).update(text).digest();
      return given.length === expected.length && timingSafeEqual(given, expected);
    });
    if (!matches.includes(true)) {
      throw new EdgeIdentityError("SIGNATURE_INVALID", "the identity is not signed for this request");
    }
    const identity = parse(value);
    const age = now() / 1_000 - identity.iat;
    if (age > MAX_AGE_S || age < -FUTURE_S) {
      throw new EdgeIdentityError("IDENTITY_EXPIRED", `the identity was signed ${Math.round(age)} s ago`);
    }
    return identity;
  };
}
