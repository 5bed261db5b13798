/**
 * Client ids and secrets. A secret is `sgn_live_sk_` or `sgn_test_sk_`, 43 random base62 characters (256 bits) and a
 * checksum of 6. Scanners can find leaked secrets, and malformed ones are rejected without a database read.
 */
import { crc32 } from "node:zlib";
import type { PrincipalEnvironment } from "#domain/identity.ts";
import type { RandomBytes } from "#domain/ids.ts";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** The largest multiple of 62 in a byte. Larger values would favour the first characters. */
const UNBIASED = 248;
const CLIENT_ID_LENGTH = 24;
const SECRET_LENGTH = 43;
const CHECKSUM_LENGTH = 6;

/** The pattern of client secrets, for secret scanners. */
export const CLIENT_SECRET_PATTERN = "^sgn_(live|test)_sk_[0-9A-Za-z]{49}$";
const CLIENT_SECRET_REGEX = new RegExp(CLIENT_SECRET_PATTERN);
/** The pattern of client ids. */
export const CLIENT_ID_PATTERN = "^cl_[0-9A-Za-z]{24}$";
const CLIENT_ID_REGEX = new RegExp(CLIENT_ID_PATTERN);

function randomBase62(length: number, randomBytes: RandomBytes): string {
  let text = "";
  while (text.length < length) {
    for (const byte of randomBytes(length)) {
      if (byte < UNBIASED && text.length < length) {
        text += BASE62[byte % 62];
      }
    }
  }
  return text;
}

function checksum(text: string): string {
  let rest = crc32(text);
  let digits = "";
  for (let index = 0; index < CHECKSUM_LENGTH; index += 1) {
    digits = `${BASE62[rest % 62]}${digits}`;
    rest = Math.floor(rest / 62);
  }
  return digits;
}

/** Returns a secret: the prefix, 256 random bits, and a checksum over both. */
export function newSecretText(prefix: string, randomBytes: RandomBytes): string {
  const body = prefix + randomBase62(SECRET_LENGTH, randomBytes);
  return body + checksum(body);
}

/** Whether the checksum at the end of a secret is correct. */
export function hasRightChecksum(text: string): boolean {
  return checksum(text.slice(0, -CHECKSUM_LENGTH)) === text.slice(-CHECKSUM_LENGTH);
}

/** Creates a client id. */
export function newClientId(randomBytes: RandomBytes): string {
  return `cl_${randomBase62(CLIENT_ID_LENGTH, randomBytes)}`;
}

/** Creates a client secret. Only this function makes secrets: their randomness is what makes a fast MAC safe. */
export function newClientSecret(environment: PrincipalEnvironment, randomBytes: RandomBytes): string {
  const kind = environment === "production" ? "live" : "test";
  return newSecretText(`sgn_${kind}_sk_`, randomBytes);
}

/** Whether the text has the form of a client id. */
export function isClientId(text: string): boolean {
  return CLIENT_ID_REGEX.test(text);
}

/** Whether the text has the form of a client secret and its checksum is correct. */
export function isClientSecret(text: string): boolean {
  return CLIENT_SECRET_REGEX.test(text) && hasRightChecksum(text);
}

/** Returns the environment of a well-formed secret. */
export function environmentOf(clientSecret: string): PrincipalEnvironment {
  return clientSecret.startsWith("sgn_live_") ? "production" : "development";
}
