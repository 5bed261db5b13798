/** Public keys that nobody can sign with safely, or that everybody can. OpenSSL reads them without a word. */
import type { KeyObject } from "node:crypto";

const RSA_BITS_MIN = 2_048;
const RSA_BITS_MAX = 8_192;
const RSA_EXPONENT = 65_537n;
const RSA_EXPONENT_BITS_MAX = 256;
/** The prime of Curve25519, below whose values its points are encoded (RFC 8032 section 5.1). */
const PRIME = 2n ** 255n - 19n;
const SIGN_BIT = 1n << 255n;
const EIGHTH = 0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n;
/** The y coordinates of Edwards25519's points of order 1, 2, 4 and 8. */
const SMALL_EDWARDS: ReadonlySet<bigint> = new Set([0n, 1n, PRIME - 1n, EIGHTH, PRIME - EIGHTH]);
/** The u coordinates of such points of Curve25519 (RFC 7748 section 7). */
const SMALL_MONTGOMERY: ReadonlySet<bigint> = new Set([
  0n,
  1n,
  PRIME - 1n,
  0x00b8495f16056286fdb1329ceb8d09da6ac49ff1fae35616aeb8413b7c7aebe0n,
  0x57119fd0dd4e22d8868e1c58c45c44045bef839c55b1d0b1248c50a3bc959c5fn,
]);

function numberOf(base64url: unknown, order: "big" | "little" = "big"): bigint {
  const bytes = Buffer.from(String(base64url), "base64url");
  const ordered = order === "big" ? bytes : Buffer.from(bytes.toReversed());
  return BigInt(`0x0${ordered.toString("hex")}`);
}

function rsaWeakness(key: KeyObject): string | undefined {
  const { modulusLength: bits = 0, publicExponent: e = 0n } = key.asymmetricKeyDetails ?? {};
  if (bits < RSA_BITS_MIN || bits > RSA_BITS_MAX) {
    return `must have ${RSA_BITS_MIN} to ${RSA_BITS_MAX} bits`;
  }
  if (numberOf(key.export({ format: "jwk" }).n) % 2n === 0n) {
    return "has an even modulus";
  }
  const isLarge = e >= RSA_EXPONENT && e < 1n << BigInt(RSA_EXPONENT_BITS_MAX);
  return e === 3n || (isLarge && e % 2n === 1n)
    ? undefined
    : `must have the exponent 3, or an odd one from ${RSA_EXPONENT}`;
}

/** Curves' points are checked when a key is read, but for these two curves. */
function pointWeakness(key: KeyObject, small: ReadonlySet<bigint>): string | undefined {
  const encoded = numberOf(key.export({ format: "jwk" }).x, "little") % SIGN_BIT;
  return encoded >= PRIME || small.has(encoded)
    ? "is a point of small order, or not in its normal form"
    : undefined;
}

/**
 * Returns why a public key must not be used; undefined if nothing is wrong with it.
 *
 * RSA keys have 2,048 to 8,192 bits, an odd modulus, and the exponent 3 or an odd one from 65537 (with 1, every digest
 * is its own signature). A point of small order as an Ed25519 key has signatures that hold for any text.
 */
export function weaknessOf(key: KeyObject): string | undefined {
  const type = key.asymmetricKeyType;
  if (type === "rsa" || type === "rsa-pss") {
    return rsaWeakness(key);
  }
  const small = { ed25519: SMALL_EDWARDS, x25519: SMALL_MONTGOMERY }[String(type)];
  return small && pointWeakness(key, small);
}

/**
 * Returns the key.
 *
 * @throws TypeError if it must not be used
 */
export function soundKey(key: KeyObject): KeyObject {
  const weakness = weaknessOf(key);
  if (weakness !== undefined) {
    throw new TypeError(`the public key ${weakness}`);
  }
  return key;
}
