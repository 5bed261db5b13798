/** The edge's side of the identity headers. */
import { createHmac, hash, type KeyObject } from "node:crypto";
import { IDENTITY_HEADER, IDENTITY_SIGNATURE_HEADER, type SignedRequest, signedText } from "./signature.ts";

/** Block size of SHA-256, in bytes (FIPS 180-4). */
const BLOCK_BYTES = 64;
const DIGEST_BYTES = 32;
const INNER_PAD = 0x36;
const OUTER_PAD = 0x5c;

/** The identity of a token; the same object for every request with it. */
export interface Caller {
  readonly tenantId: string;
  readonly principalId: string;
  readonly scopes: ReadonlySet<string>;
  readonly region: string;
}

/** The signed facts of a request. */
export interface IdentifiedRequest extends SignedRequest {
  readonly requestId: string;
  /** Time of signing, in Unix seconds. */
  readonly iat: number;
}

/** The two headers of a request to an upstream. */
export type IdentityHeaders = Record<typeof IDENTITY_HEADER | typeof IDENTITY_SIGNATURE_HEADER, string>;

function blockOf(key: KeyObject): Buffer {
  const bytes = key.export();
  const block = Buffer.alloc(BLOCK_BYTES);
  (bytes.length > BLOCK_BYTES ? hash("sha256", bytes, "buffer") : bytes).copy(block);
  return block;
}

/**
 * HMAC-SHA-256 in lowercase hex, built from two digests (RFC 2104 section 2): Node's own creates an object outside
 * the heap for each request, which costs twice as much as the digests.
 */
export function createHexMac(key: KeyObject): (text: string) => string {
  const block = blockOf(key);
  const inner = Buffer.from(block.map((byte) => byte ^ INNER_PAD)).toString("latin1");
  const outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES);
  outer.set(block.map((byte) => byte ^ OUTER_PAD));
  return (text) => {
    if (Buffer.byteLength(text) !== text.length) {
      // One byte per character: the edge forwards only ASCII.
      return createHmac("sha256", key).update(text).digest("hex");
    }
    outer.write(hash("sha256", Buffer.from(inner + text, "latin1"), "binary"), BLOCK_BYTES, "latin1");
    return hash("sha256", outer, "hex");
  };
}

/** Returns the token's members of an {@link EdgeIdentity} as the beginning of its JSON. */
function beginningOf({ tenantId: tenant, principalId: principal, scopes, region }: Caller): string {
  return JSON.stringify({ tenant, principal, scope: [...scopes].join(" "), region }).slice(0, -1);
}

/** Creates the signer of an upstream's headers with its key. */
export function createIdentitySigner(
  key: KeyObject,
): (caller: Caller, request: IdentifiedRequest) => IdentityHeaders {
  const hexMac = createHexMac(key);
  const beginnings = new WeakMap<Caller, string>();
  return (caller, { requestId, iat, method, target }) => {
    let beginning = beginnings.get(caller);
    if (beginning === undefined) {
      beginning = beginningOf(caller);
      beginnings.set(caller, beginning);
    }
    const text = `${beginning},"request_id":${JSON.stringify(requestId)},"iat":${iat}}`;
    const value = Buffer.from(text).toString("base64url");
    return {
      [IDENTITY_HEADER]: value,
      [IDENTITY_SIGNATURE_HEADER]: `v1=${hexMac(signedText(value, { method, target }))}`,
    };
  };
}
