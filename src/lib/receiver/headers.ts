/**
 * Reads the headers of a signed payload, each at most once and in exactly one spelling. Leniency here
 * is how verification libraries fail: a truncated signature (CVE-2024-21491), `1763650000junk` as a time.
 */
import { VerificationError } from "./errors.ts";

/** `Headers` of the Fetch standard, or an object such as `IncomingMessage.headers`. */
export type HeaderSource =
  | { get(name: string): string | null | undefined }
  | { readonly [name: string]: string | readonly string[] | undefined };

/** The headers of one payload after the format checks. */
export interface SignedHeaders {
  /** `sha256=…` values: the signature and, while a secret rotates, the alternative one. */
  readonly sha256: readonly string[];
  /** `v1,…` values with the id and the time that they cover; null without any. */
  readonly standard: {
    readonly id: string;
    readonly timestamp: string;
    readonly v1: readonly string[];
    /** `v1a,…` values: Ed25519. */
    readonly v1a: readonly string[];
  } | null;
  /** Unix seconds from `X-Service-Timestamp`, or from `webhook-timestamp` if only that was sent. */
  readonly timestampSeconds: number;
  /** `X-Service-Event-Id`, if sent. */
  readonly eventId: string | null;
}

const SHA256_FORMAT = /^sha256=[0-9a-f]{64}$/;
const V1_FORMAT = /^v1,[A-Za-z0-9+/]{43}=$/;
/** Values in another format are skipped, as by receivers that do not know the version. */
const V1A_FORMAT = /^v1a,[A-Za-z0-9+/]{86}==$/;
/** Other versions, which the Standard Webhooks specification tells receivers to skip. */
const OTHER_VERSION_FORMAT = /^v(?!1,)[0-9a-z]+,[\x21-\x7e]+$/;
/** One spelling per number: no sign, no leading zero. */
const TIMESTAMP_FORMAT = /^(?:0|[1-9][0-9]{0,11})$/;
/** Printable, without the dot that separates the signed parts. */
const ID_FORMAT = /^[\x21-\x2d\x2f-\x7e]{1,256}$/;
const MAX_SIGNATURES = 16;

function malformed(name: string): VerificationError {
  return new VerificationError("HEADERS_MALFORMED", `the header ${name} is missing, repeated or malformed`);
}

function isFetchHeaders(source: HeaderSource): source is { get(name: string): string | null | undefined } {
  return typeof source.get === "function";
}

/** Returns the values of a header, case-insensitively. */
export function valuesOf(source: HeaderSource, name: string): readonly string[] {
  if (isFetchHeaders(source)) {
    const value = source.get(name);
    return value === null || value === undefined ? [] : [value];
  }
  const wanted = name.toLowerCase();
  return Object.entries(source)
    .filter(([key, value]) => value !== undefined && key.toLowerCase() === wanted)
    .flatMap(([, value]) => value ?? []);
}

/** Returns the single value of a header in its format, or null if it was not sent. */
function readOptional(source: HeaderSource, name: string, format: RegExp): string | null {
  const values = valuesOf(source, name);
  const value = values[0];
  if (value === undefined) {
    return null;
  }
  // A repeated header arrives as several values, or joined by a comma, which no format here allows.
  if (values.length > 1 || !format.test(value)) {
    throw malformed(name);
  }
  return value;
}

function readRequired(source: HeaderSource, name: string, format: RegExp): string {
  const value = readOptional(source, name, format);
  if (value === null) {
    throw malformed(name);
  }
  return value;
}

function readStandard(source: HeaderSource): SignedHeaders["standard"] {
  const list = readOptional(source, "webhook-signature", /^[\x20-\x7e]{1,4096}$/);
  if (list === null) {
    return null;
  }
  const entries = list.split(" ");
  const v1 = entries.filter((entry) => V1_FORMAT.test(entry));
  const v1a = entries.filter((entry) => V1A_FORMAT.test(entry));
  const others = entries.filter((entry) => OTHER_VERSION_FORMAT.test(entry));
  if (entries.length > MAX_SIGNATURES || v1.length + others.length !== entries.length) {
    throw malformed("webhook-signature");
  }
  return {
    id: readRequired(source, "webhook-id", ID_FORMAT),
    timestamp: readRequired(source, "webhook-timestamp", TIMESTAMP_FORMAT),
    v1,
    v1a,
  };
}

/**
 * Reads and checks the headers.
 *
 * @param brand the word for "Service" in the header names
 * @throws VerificationError `HEADERS_MALFORMED`
 */
export function readSignedHeaders(source: HeaderSource, brand: string): SignedHeaders {
  const signature = readOptional(source, `X-${brand}-Signature-256`, SHA256_FORMAT);
  const alternative = readOptional(source, `X-${brand}-Signature-256-Alt`, SHA256_FORMAT);
  const timestamp = readOptional(source, `X-${brand}-Timestamp`, TIMESTAMP_FORMAT);
  const standard = readStandard(source);
  if (signature === null && (alternative !== null || standard === null)) {
    throw malformed(`X-${brand}-Signature-256`);
  }
  if (signature !== null && timestamp === null) {
    throw malformed(`X-${brand}-Timestamp`);
  }
  return {
    sha256: [signature, alternative].filter((value) => value !== null),
    standard,
    timestampSeconds: Number(timestamp ?? standard?.timestamp),
    eventId: readOptional(source, `X-${brand}-Event-Id`, ID_FORMAT),
  };
}
