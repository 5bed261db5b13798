/**
 * Client ids and secrets. A secret is `sgn_live_sk_` or `sgn_test_sk_`, 43 random base62 characters (256 bits) and 6 of
 * checksum: scanners can find it in a leak, and garbage dies without a database read.
 */
import { crc32 } from "node:zlib";
import type { PrincipalEnvironment } from "../../domain/identity.ts";
import type { RandomBytes } from "../../domain/ids.ts";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** The largest multiple of 62 in a byte: what lies above would favour the first characters. */
const UNBIASED = 248;
const CLIENT_ID_LENGTH = 24;
const SECRET_LENGTH = 43;
const CHECKSUM_LENGTH = 6;

/** What a client secret looks like, for secret scanners. */
export const CLIENT_SECRET_PATTERN = "^sgn_(live|test)_sk_[0-9A-Za-z]{49}$";
const CLIENT_SECRET_REGEX = new RegExp(CLIENT_SECRET_PATTERN);
const CLIENT_ID_REGEX = /^cl_[0-9A-Za-z]{24}$/;

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

/** What a random secret of ours is behind its prefix, with the checksum of all of it: 256 bits. */
export function newSecretText(prefix: string, randomBytes: RandomBytes): string {
  const body = prefix + randomBase62(SECRET_LENGTH, randomBytes);
  return body + checksum(body);
}

/** Whether the checksum at the end of a secret is right. */
export function hasRightChecksum(text: string): boolean {
  return checksum(text.slice(0, -CHECKSUM_LENGTH)) === text.slice(-CHECKSUM_LENGTH);
}

/** A fresh client id. */
export function newClientId(randomBytes: RandomBytes): string {
  return `cl_${randomBase62(CLIENT_ID_LENGTH, randomBytes)}`;
}

/** A fresh client secret. Secrets are only ever made here: that they are random is what makes a fast MAC safe. */
export function newClientSecret(environment: PrincipalEnvironment, randomBytes: RandomBytes): string {
  const kind = environment === "production" ? "live" : "test";
  return newSecretText(`sgn_${kind}_sk_`, randomBytes);
}

/** Whether the text has the form of a client id. */
export function isClientId(text: string): boolean {
  return CLIENT_ID_REGEX.test(text);
}

/** Whether the text has the form of a client secret and its checksum is right. */
export function isClientSecret(text: string): boolean {
  return CLIENT_SECRET_REGEX.test(text) && hasRightChecksum(text);
}

/** The environment that a well-formed secret was made for. */
export function environmentOf(clientSecret: string): PrincipalEnvironment {
  return clientSecret.startsWith("sgn_live_") ? "production" : "development";
}
