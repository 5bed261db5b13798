/**
 * Identifiers: `<prefix>_` and 24 characters of lowercase Crockford base32, which hold 48 bits of Unix
 * milliseconds and 72 random bits (contract 9.2). Their width is fixed, so they sort by time as text
 * (`COLLATE "C"`). The UTC day of a row, its partition key, can be read from its id.
 */

import { putBounded } from "./bounded-map.ts";

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
const TIME_BYTES = 6;
const RANDOM_BYTES = 9;
const BODY_LENGTH = 24;

/** Every prefix and the noun it stands for. */
export const ID_PREFIXES = {
  tenant: "ten",
  role: "rol",
  principal: "prn",
  credential: "crd",
  endpoint: "ep",
  event: "evt",
  delivery: "dlv",
  batch: "bat",
  attempt: "att",
  replay: "rpl",
  revocation: "rev",
  key: "key",
  request: "req",
  checkpoint: "chk",
  grade: "grd",
  operator: "opr",
  operatorToken: "otk",
  stream: "ssf",
  securityEventToken: "set",
  statusList: "stl",
} as const;

export type IdNoun = keyof typeof ID_PREFIXES;

/** A source of random bytes, passed as an argument so that tests can replay it. */
export type RandomBytes = (size: number) => Uint8Array;

/** The pattern of all ids. Other texts are rejected before they reach the database. */
export const ID_PATTERN = "^[a-z]{2,3}_[0-9a-hjkmnp-tv-z]{24}$";
const ID_REGEX = new RegExp(ID_PATTERN);

/** Returns the pattern of the ids of one noun, for route schemas. */
export function idPattern(noun: IdNoun): string {
  return `^${ID_PREFIXES[noun]}_[0-9a-hjkmnp-tv-z]{24}$`;
}

/** Two characters for each value of ten bits. */
const PAIRS: readonly string[] = Array.from(
  { length: 1_024 },
  (_, value) => ALPHABET.charAt(value >> 5) + ALPHABET.charAt(value & 31),
);

/** Encodes five bits per character; the number of bytes is a multiple of five. */
function encode(bytes: Uint8Array): string {
  let text = "";
  let accumulator = 0;
  let bits = 0;
  for (const byte of bytes) {
    accumulator = (accumulator << 8) | byte;
    bits += 8;
    if (bits >= 10) {
      bits -= 10;
      text += PAIRS[accumulator >>> bits];
      accumulator &= (1 << bits) - 1;
    }
  }
  return text;
}

/**
 * Creates an id of the given noun.
 *
 * @param nowMs Unix time in milliseconds, 0 to 2^48 - 1
 */
export function newId(noun: IdNoun, nowMs: number, randomBytes: RandomBytes): string {
  const bytes = new Uint8Array(TIME_BYTES + RANDOM_BYTES);
  let rest = Math.floor(nowMs);
  for (let index = TIME_BYTES - 1; index >= 0; index -= 1) {
    bytes[index] = rest % 256;
    rest = Math.floor(rest / 256);
  }
  bytes.set(randomBytes(RANDOM_BYTES), TIME_BYTES);
  return `${ID_PREFIXES[noun]}_${encode(bytes)}`;
}

/** Returns the smallest id of an instant in Unix milliseconds. */
export function idAt(noun: IdNoun, ms: number): string {
  return newId(noun, ms, (size) => new Uint8Array(size));
}

/** Whether the text has the form of an id, and of an id of `noun` if given. */
export function isId(text: string, noun?: IdNoun): boolean {
  return ID_REGEX.test(text) && (noun === undefined || text.startsWith(`${ID_PREFIXES[noun]}_`));
}

/** Returns the Unix milliseconds inside an id. The id must have passed {@link isId}. */
export function idTimeMs(id: string): number {
  const body = id.slice(-BODY_LENGTH);
  let value = 0;
  // 48 bits are nine characters of five bits and the first three bits of the tenth.
  for (let index = 0; index < 9; index += 1) {
    value = value * 32 + ALPHABET.indexOf(body.charAt(index));
  }
  return value * 8 + (ALPHABET.indexOf(body.charAt(9)) >> 2);
}

export const HOUR_MS = 3_600_000;
export const DAY_MS = 86_400_000;

/** Returns the start of the hour of an instant, both in Unix milliseconds. */
export function hourStart(ms: number): number {
  return Math.floor(ms / HOUR_MS) * HOUR_MS;
}

/** Cached days by their number. Every row needs its day, and few days are in use. */
const days = new Map<number, string>();
const DAYS_MAX = 1_000;

/** Returns the UTC day inside an id as `YYYY-MM-DD`: the partition of its row. */
export function idDay(id: string): string {
  return utcDay(idTimeMs(id));
}

/**
 * Returns the first day inside ids, at least one. As a condition beside a join by day (`day >= …`), it spares PostgreSQL
 * the earlier partitions: a statement leaves them out when it begins, instead of preparing a scan of each. With the last
 * day, too, the planner would expect so few rows that it reads the whole range instead of looking up keys.
 */
export function firstDay(ids: readonly string[]): string {
  // Ids are in the order of their times.
  return idDay(ids.reduce((least, id) => (id < least ? id : least), ids[0] ?? ""));
}

/** Returns the UTC day of an instant in Unix milliseconds as `YYYY-MM-DD`. */
export function utcDay(ms: number): string {
  const number = Math.floor(ms / DAY_MS);
  let day = days.get(number);
  if (day === undefined) {
    const [text = ""] = new Date(number * DAY_MS).toISOString().split("T");
    // A made-up id can hold the year 10889. ISO 8601 writes +010889, but PostgreSQL accepts no sign.
    day = text.replace(/^\+0*/, "");
    putBounded(days, number, day, DAYS_MAX);
  }
  return day;
}
