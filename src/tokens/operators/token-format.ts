/** Operators' tokens: `sgn_op_`, 43 random base62 characters (256 bits) and 6 of checksum, like client secrets. */
import { hasRightChecksum, newSecretText } from "../credentials/secret-format.ts";
import type { RandomBytes } from "../../domain/ids.ts";

const PREFIX = "sgn_op_";
const TOKEN_REGEX = /^sgn_op_[0-9A-Za-z]{49}$/;
/** Shown wherever the token itself is not: enough to tell one's tokens apart, 226 bits short of a token. */
const SHOWN_LENGTH = PREFIX.length + 5;

/** A fresh token. */
export function newOperatorToken(randomBytes: RandomBytes): string {
  return newSecretText(PREFIX, randomBytes);
}

/** Whether the text has the form of a token and its checksum is right. */
export function isOperatorToken(text: string): boolean {
  return TOKEN_REGEX.test(text) && hasRightChecksum(text);
}

/** The beginning of a token, which may be shown and kept. */
export function shownPrefix(token: string): string {
  return token.slice(0, SHOWN_LENGTH);
}
