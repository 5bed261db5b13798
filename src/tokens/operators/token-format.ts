/** Operators' tokens: `sgn_op_`, 43 random base62 characters (256 bits) and a checksum of 6, as in client secrets. */
import { hasRightChecksum, newSecretText } from "../credentials/secret-format.ts";
import type { RandomBytes } from "#domain/ids.ts";

const PREFIX = "sgn_op_";
const TOKEN_REGEX = /^sgn_op_[0-9A-Za-z]{49}$/;
/** Length of the displayed prefix. It distinguishes an operator's tokens, but is 226 bits short of a token. */
const SHOWN_LENGTH = PREFIX.length + 5;

/** Creates a token. */
export function newOperatorToken(randomBytes: RandomBytes): string {
  return newSecretText(PREFIX, randomBytes);
}

/** Whether the text has the form of a token and its checksum is correct. */
export function isOperatorToken(text: string): boolean {
  return TOKEN_REGEX.test(text) && hasRightChecksum(text);
}

/** Returns the prefix of a token, which may be displayed and stored. */
export function shownPrefix(token: string): string {
  return token.slice(0, SHOWN_LENGTH);
}
