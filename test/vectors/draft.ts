/** How a vector is made: its types, keys, bodies and headers, signed by `node:crypto`. */
import { createHmac } from "node:crypto";

/** A header's name and value, in their original order and spelling; repeated headers occur twice. */
type Header = readonly [name: string, value: string];

export type RefusalCode =
  | "HEADERS_MALFORMED"
  | "SIGNATURE_INVALID"
  | "PAYLOAD_EXPIRED"
  | "TIMESTAMP_MISMATCH"
  | "ID_MISMATCH";

export interface Vector {
  readonly name: string;
  /** Explains the result, unless the name does. */
  readonly why?: string;
  /** Required algorithm besides HMAC; receivers without it skip the vector. */
  readonly algorithm?: "ed25519";
  readonly secrets: readonly string[];
  readonly now_seconds: number;
  readonly body_base64: string;
  readonly headers: readonly Header[];
  /** `misconfigured`: the caller's secrets are invalid. */
  readonly expect:
    | { readonly result: "accepted"; readonly id: string | null; readonly scheme: "sha256" | "v1" | "v1a" }
    | { readonly result: "refused"; readonly code: RefusalCode }
    | { readonly result: "misconfigured" };
}

export interface VectorFile {
  readonly $schema: string;
  readonly about: string;
  readonly tolerance_seconds: number;
  readonly future_seconds: number;
  readonly vectors: readonly Vector[];
}

export const NOW = 1_763_650_000;
export const ID = "evt_01k9x3c5a8w2d4f6h7j8k9mnpq";
export const OTHER_ID = "evt_01k9x3c5a8w2d4f6h7j8k9mnpr";

function secretOf(first: number): string {
  return `whsec_${Buffer.from(Array.from({ length: 32 }, (_, index) => (first + index) % 256)).toString("base64")}`;
}

export const CURRENT = secretOf(0);
export const NEXT = secretOf(32);
export const FOREIGN = secretOf(64);

export function sha256Of(secret: string, body: Buffer): string {
  return `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`;
}

export function v1Of(secret: string, body: Buffer, { id = ID, timestamp = String(NOW) } = {}): string {
  const key = Buffer.from(secret.slice("whsec_".length), "base64");
  return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest("base64")}`;
}

export function bodyOf(data: string, { id = ID, sentAt = String(NOW) } = {}): Buffer {
  return Buffer.from(
    `{"id":"${id}","type":"inference.completed","timestamp":"2025-11-20T14:46:40.000Z","sent_at":${sentAt}` +
      `,"attempt":1,"endpoint_id":"ep_01k9x3c5a8w2d4f6h7j8k9mnpq","delivery_id":"dlv_01k9x3c5a8w2d4f6h7j8k9mnpq"` +
      `,"metadata":null,"data":${data}}`,
  );
}

export const BODY = bodyOf('{"run":7}');

/** A delivery's headers by name; undefined ones are not sent. */
export type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

interface Signing {
  readonly secret?: string;
  readonly id?: string;
  readonly timestamp?: string;
}

/** Returns the sender's headers, with those in `instead` replaced. */
export function headersOf(body: Buffer, instead: Headers = {}, signing: Signing = {}): Headers {
  const { secret = CURRENT, id = ID, timestamp = String(NOW) } = signing;
  return {
    "X-Service-Signature-256": sha256Of(secret, body),
    "X-Service-Timestamp": timestamp,
    "X-Service-Event-Id": id,
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": v1Of(secret, body, { id, timestamp }),
    ...instead,
  };
}

export const NO_STANDARD: Headers = {
  "webhook-id": undefined,
  "webhook-timestamp": undefined,
  "webhook-signature": undefined,
};
export const NO_SHA256: Headers = {
  "X-Service-Signature-256": undefined,
  "X-Service-Timestamp": undefined,
  "X-Service-Event-Id": undefined,
};

export interface Draft {
  readonly why?: string;
  readonly secrets?: readonly string[];
  readonly now?: number;
  readonly body?: Buffer;
  readonly headers: Headers;
}

export function vector(
  name: string,
  { why, secrets = [CURRENT], now = NOW, body = BODY, headers }: Draft,
  expect: Vector["expect"],
): Vector {
  return {
    name,
    ...(why === undefined ? {} : { why }),
    secrets,
    now_seconds: now,
    body_base64: body.toString("base64"),
    headers: Object.entries(headers).flatMap(([key, value]) =>
      value === undefined ? [] : [value].flat().map((one): Header => [key, one]),
    ),
    expect,
  };
}

export function accepted(
  name: string,
  draft: Draft,
  scheme: "sha256" | "v1" | "v1a" = "v1",
  id: string | null = ID,
): Vector {
  return vector(name, draft, { result: "accepted", id, scheme });
}

export function refused(name: string, code: RefusalCode, draft: Draft): Vector {
  return vector(name, draft, { result: "refused", code });
}

export function malformed(name: string, instead: Headers, why?: string): Vector {
  const headers = headersOf(BODY, instead);
  return refused(name, "HEADERS_MALFORMED", why === undefined ? { headers } : { headers, why });
}
