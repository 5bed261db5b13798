/**
 * Requests that test a receiver. Each is built like a delivery, with the endpoint's own secrets. A request that must
 * be rejected is then invalidated in one way.
 */
import { buildEnvelope } from "../sending/envelope.ts";
import type { Signer, EndpointSecrets } from "../sending/signer.ts";
import { newId, type RandomBytes } from "#domain/ids.ts";
import { signDelivery } from "#lib/receiver/sign.ts";
import { generateSecret } from "#lib/receiver/secret.ts";

/** Event type of all grading requests, so that receivers can ignore them in their work. */
const GRADE_EVENT_TYPE = "signet.grade";

/** In the order of execution. */
export const CHECK_NAMES = [
  "valid",
  "duplicate",
  "retry",
  "out_of_order",
  "late",
  "unusual_json",
  "header_case",
  "second_signature",
  "large_body",
  "slow_body",
  "wrong_signature",
  "unsigned",
  "truncated_signature",
  "rewritten_body",
  "stale",
  "future",
  "fresh_timestamp_header",
  "fresh_id_header",
  "valid_again",
] as const;

export type CheckName = (typeof CHECK_NAMES)[number];

/** A request of a check, ready to send. */
export interface GradeRequest {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Sends the body in pieces, with a pause before each. */
  readonly drip?: { readonly pieces: number; readonly everyMs: number };
}

export interface GradeSubject {
  readonly gradeId: string;
  readonly endpointId: string;
  readonly secrets: EndpointSecrets;
}

export interface CheckServices {
  readonly signer: Signer;
  /** Brand that replaces "Service" in header names. */
  readonly headerBrand: string;
  /** Time of the request, in Unix milliseconds. */
  readonly nowMs: number;
  readonly randomBytes: RandomBytes;
  /** Total time of a slowly sent body, in milliseconds. */
  readonly dripMs: number;
}

/** How a request differs from an ordinary delivery made now. */
interface Variant {
  readonly eventId?: string;
  /** Signing time relative to now, in seconds. */
  readonly signedIn?: number;
  readonly occurredMs?: number;
  readonly attempt?: number;
  readonly dataJson?: string;
}

const HOUR_MS = 3_600_000;
/** Old enough to detect a window that is much smaller than 300 s, recent enough for clocks that differ. */
const LATE_SECONDS = 120;
/** Far outside every common window: 300 s, 60 s, and the 300 s in both directions of Standard Webhooks. */
const OUTSIDE_SECONDS = 900;
/** Maximum size of an event without its envelope (contract 6.1). */
const LARGE_BYTES = 262_144;
const DRIP_PIECES = 12;
/** Valid JSON that libraries parse and serialize differently: 1.0, 2^60 + 1, 1E2, escapes, member order. */
const UNUSUAL_JSON = '{"z":1.0,"b":1152921504606846977,"a":1E2,"text":"\\u00e9\\/é"}';

/** Builds the requests of one grade. Keeps the first delivery, because others repeat it. */
export class Checks {
  readonly #subject: GradeSubject;
  #first: (GradeRequest & { readonly eventId: string }) | undefined;

  constructor(subject: GradeSubject) {
    this.#subject = subject;
  }

  build(name: CheckName, sources: CheckServices): GradeRequest {
    return this.#builders[name](sources);
  }

  readonly #builders: Readonly<Record<CheckName, (sources: CheckServices) => GradeRequest>> = {
    valid: (sources) => this.#firstDelivery(sources),
    duplicate: (sources) => this.#firstDelivery(sources),
    retry: (sources) => {
      const { eventId } = this.#firstDelivery(sources);
      return this.#delivery(sources, { eventId, attempt: 2 });
    },
    out_of_order: (sources) => {
      const occurredMs = sources.nowMs - HOUR_MS;
      const eventId = newId("event", occurredMs, sources.randomBytes);
      return this.#delivery(sources, { eventId, occurredMs });
    },
    late: (sources) => this.#delivery(sources, { signedIn: -LATE_SECONDS }),
    unusual_json: (sources) => this.#delivery(sources, { dataJson: UNUSUAL_JSON }),
    header_case: (sources) => {
      const { headers, body } = this.#delivery(sources, {});
      const renamed = Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]);
      return { headers: Object.fromEntries(renamed) as Record<string, string>, body };
    },
    second_signature: (sources) => this.#withSecondSignature(sources),
    large_body: (sources) =>
      this.#delivery(sources, {
        dataJson: JSON.stringify({ text: "x".repeat(LARGE_BYTES - '{"text":""}'.length) }),
      }),
    slow_body: (sources) => ({
      ...this.#delivery(sources, {}),
      drip: { pieces: DRIP_PIECES, everyMs: Math.ceil(sources.dripMs / DRIP_PIECES) },
    }),
    wrong_signature: (sources) => this.#wronglySigned(sources),
    unsigned: (sources) => {
      const { headers, body } = this.#delivery(sources, {});
      return { headers: without(headers, /signature/i), body };
    },
    truncated_signature: (sources) => this.#truncated(sources),
    rewritten_body: (sources) => {
      const { headers, body } = this.#delivery(sources, {});
      return { headers, body: Buffer.from(JSON.stringify(JSON.parse(body.toString("utf8")), null, 2)) };
    },
    stale: (sources) => this.#delivery(sources, { signedIn: -OUTSIDE_SECONDS }),
    future: (sources) => this.#delivery(sources, { signedIn: OUTSIDE_SECONDS }),
    fresh_timestamp_header: (sources) => {
      const { headers, body } = this.#delivery(sources, { signedIn: -OUTSIDE_SECONDS });
      const name = `X-${sources.headerBrand}-Timestamp`;
      return { headers: { ...without(headers, /^webhook-/), [name]: secondsOf(sources.nowMs) }, body };
    },
    fresh_id_header: (sources) => {
      const { headers, body } = this.#firstDelivery(sources);
      const name = `X-${sources.headerBrand}-Event-Id`;
      const eventId = newId("event", sources.nowMs, sources.randomBytes);
      return { headers: { ...without(headers, /^webhook-/), [name]: eventId }, body };
    },
    valid_again: (sources) => this.#delivery(sources, {}),
  };

  #firstDelivery(sources: CheckServices): GradeRequest & { readonly eventId: string } {
    if (this.#first === undefined) {
      const eventId = newId("event", sources.nowMs, sources.randomBytes);
      this.#first = { ...this.#delivery(sources, { eventId }), eventId };
    }
    return this.#first;
  }

  #delivery(sources: CheckServices, variant: Variant): GradeRequest {
    const { nowMs, randomBytes, signer } = sources;
    const { gradeId, endpointId, secrets } = this.#subject;
    const { eventId = newId("event", nowMs, randomBytes), attempt = 1 } = variant;
    const deliveryId = newId("delivery", nowMs, randomBytes);
    const timestampSeconds = Math.floor(nowMs / 1_000) + (variant.signedIn ?? 0);
    const body = buildEnvelope({
      eventId,
      type: GRADE_EVENT_TYPE,
      timestamp: new Date(variant.occurredMs ?? nowMs).toISOString(),
      sentAt: timestampSeconds,
      attempt,
      endpointId,
      deliveryId,
      own: true,
      // Without the endpoint's metadata, whose JSON is the tenant's: only one check is about unusual JSON.
      metadataJson: null,
      dataJson: variant.dataJson ?? JSON.stringify({ grade_id: gradeId }),
    });
    const headers = signer.headers({
      ...secrets,
      body,
      eventId,
      eventType: GRADE_EVENT_TYPE,
      deliveryId,
      attempt,
      timestampSeconds,
    });
    return { headers, body };
  }

  /** A rotation as seen by a receiver that has only the other secret: its signature comes second. */
  #withSecondSignature(sources: CheckServices): GradeRequest {
    const { headers, body } = this.#delivery(sources, {});
    const { sha256, v1 } = foreignSignatures(headers, body, sources);
    const name = signatureHeader(sources);
    return {
      headers: {
        ...headers,
        [name]: sha256,
        [`${name}-Alt`]: headers[name] ?? "",
        "webhook-signature": `${v1} ${headers["webhook-signature"]}`,
      },
      body,
    };
  }

  #wronglySigned(sources: CheckServices): GradeRequest {
    const { headers, body } = this.#delivery(sources, {});
    const { sha256, v1 } = foreignSignatures(headers, body, sources);
    const name = signatureHeader(sources);
    const kept = without(headers, /-alt$/i);
    return { headers: { ...kept, [name]: sha256, "webhook-signature": v1 }, body };
  }

  #truncated(sources: CheckServices): GradeRequest {
    const { headers, body } = this.#delivery(sources, {});
    const name = signatureHeader(sources);
    const sha256 = (headers[name] ?? "").slice(0, "sha256=".length + 8);
    const v1 = (headers["webhook-signature"] ?? "").slice(0, "v1,".length + 8);
    return { headers: { ...without(headers, /-alt$/i), [name]: sha256, "webhook-signature": v1 }, body };
  }
}

function secondsOf(ms: number): string {
  return String(Math.floor(ms / 1_000));
}

function signatureHeader({ headerBrand }: CheckServices): string {
  return `X-${headerBrand}-Signature-256`;
}

function without(headers: Readonly<Record<string, string>>, name: RegExp): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([key]) => !name.test(key)));
}

/** Signatures that are correct except for the secret. */
function foreignSignatures(
  headers: Readonly<Record<string, string>>,
  body: Buffer,
  { randomBytes }: CheckServices,
): { readonly sha256: string; readonly v1: string } {
  return signDelivery({
    secret: generateSecret(randomBytes),
    body,
    id: headers["webhook-id"] ?? "",
    timestampSeconds: Number(headers["webhook-timestamp"]),
  });
}
