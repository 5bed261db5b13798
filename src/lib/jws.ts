/**
 * Signatures of JWS and COSE. For ES256 both write two numbers of 32 bytes (RFC 7518 section 3.4, RFC 9053 section
 * 2.1), where OpenSSL writes DER. Node converts as well, but then takes twice as long for a signature.
 */
import { type KeyObject, sign, verify } from "node:crypto";

const NUMBER_BYTES = 32;
const SIGNATURE_BYTES = 2 * NUMBER_BYTES;
/** Tags of DER (X.690 section 8). */
const SEQUENCE = 0x30;
const INTEGER = 0x02;
/** Bytes of a tag and a length. Every length is below 128, so it takes one byte. */
const HEAD_BYTES = 2;
const SIGN_BIT = 0x80;

/** Copies the number that begins at `at` in DER, and returns where it ends. */
function copyNumber(der: Buffer, at: number, signature: Buffer, end: number): number {
  const start = at + HEAD_BYTES;
  const next = start + der.readUInt8(at + 1);
  // A number of 33 bytes begins with a zero, which keeps it positive.
  const first = Math.max(start, next - NUMBER_BYTES);
  der.copy(signature, end - (next - first), first, next);
  return next;
}

/** Signs with a P-256 key. Returns 64 bytes. */
export function signEs256(bytes: Uint8Array, key: KeyObject): Buffer {
  const der = sign("sha256", bytes, key);
  const signature = Buffer.alloc(SIGNATURE_BYTES);
  const second = copyNumber(der, HEAD_BYTES, signature, NUMBER_BYTES);
  copyNumber(der, second, signature, SIGNATURE_BYTES);
  return signature;
}

/** Returns a number in DER: without leading zeros, unless it would be negative. */
function integerOf(number: Uint8Array): Buffer {
  const leading = number.findIndex((byte) => byte !== 0);
  const digits = number.subarray(leading === -1 ? NUMBER_BYTES - 1 : leading);
  const sign = (digits[0] as number) >= SIGN_BIT ? [0] : [];
  return Buffer.from([INTEGER, sign.length + digits.length, ...sign, ...digits]);
}

/** Any length but 64 bytes is no signature. */
function verifyEs256(bytes: Uint8Array, key: KeyObject, signature: Uint8Array): boolean {
  if (signature.length !== SIGNATURE_BYTES) {
    return false;
  }
  const r = integerOf(signature.subarray(0, NUMBER_BYTES));
  const s = integerOf(signature.subarray(NUMBER_BYTES));
  return verify("sha256", bytes, key, Buffer.concat([Buffer.from([SEQUENCE, r.length + s.length]), r, s]));
}

/**
 * Whether `signature` is one of `key` by this algorithm: `ES256`, `RS256` or `Ed25519` (RFC 9864). False for any other.
 */
export function verifySignature(
  alg: unknown,
  bytes: Uint8Array,
  key: KeyObject,
  signature: Uint8Array,
): boolean {
  switch (alg) {
    case "ES256":
      return verifyEs256(bytes, key, signature);
    case "RS256":
      return verify("sha256", bytes, key, signature);
    case "Ed25519":
      return verify(null, bytes, key, signature);
    default:
      return false;
  }
}
