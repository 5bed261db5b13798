/** Builds the header object of an outgoing delivery (wire.md, Events) on top of the receiver's `sign.ts`. */
import type { GuardedClock } from "../../domain/clock.ts";
import { signAsymmetric } from "../../lib/receiver/ed25519.ts";
import { signDelivery } from "../../lib/receiver/sign.ts";

/** What an endpoint's requests are signed with at a moment. */
export interface SigningSecrets {
  /** The endpoint's current secret, `whsec_…`. */
  readonly secret: string;
  /** The next or previous secret while a rotation overlaps: signed beside the current one. */
  readonly alternateSecret?: string | null;
  /** Ed25519 private keys, 32 bytes each, the current one first; none where the endpoint has not asked for them. */
  readonly signingKeys?: readonly Uint8Array[];
}

/** One attempt of one delivery. */
interface SignedRequest extends SigningSecrets {
  /** Exactly the bytes that are sent; their `sent_at` must be `timestampSeconds`. */
  readonly body: Buffer;
  readonly eventId: string;
  readonly eventType: string;
  readonly deliveryId: string;
  /** 1 to 17. */
  readonly attempt: number;
  readonly timestampSeconds: number;
}

/** Signs requests. */
export interface Signer {
  /**
   * Every header of the request but those of the connection (Host, Content-Length, Connection).
   *
   * @throws SignetError `CLOCK_SKEWED`: receivers would have to refuse the timestamp
   */
  headers(request: SignedRequest): Record<string, string>;
}

const BRAND_FORMAT = /^[A-Za-z][A-Za-z0-9-]{0,31}$/;
const DOCS_URL_FORMAT = /^[\x21-\x27\x2a-\x7e]+$/;

/**
 * @param options.headerBrand the word for "Service" in `X-Service-…`
 * @param options.docsUrl where a receiver finds out who is calling; part of the User-Agent
 * @throws TypeError when one of them cannot stand in a header
 */
export function createSigner(options: {
  readonly headerBrand: string;
  readonly docsUrl: string;
  /** Absent: nobody asks whether the time is right. */
  readonly clock?: Pick<GuardedClock, "requireRight">;
}): Signer {
  const { headerBrand, docsUrl, clock } = options;
  if (!BRAND_FORMAT.test(headerBrand)) {
    throw new TypeError("headerBrand must be a header name part");
  }
  if (!DOCS_URL_FORMAT.test(docsUrl)) {
    throw new TypeError("docsUrl must be a printable URL");
  }
  const userAgent = `Signet/1 (+${docsUrl})`;
  const prefix = `X-${headerBrand}`;

  return {
    headers(request) {
      clock?.requireRight();
      const { body, eventId: id, timestampSeconds, signingKeys } = request;
      const current = signDelivery({ secret: request.secret, body, id, timestampSeconds });
      const alternate =
        // The keys of an endpoint may rotate while its secret stays.
        request.alternateSecret === undefined ||
        request.alternateSecret === null ||
        request.alternateSecret === request.secret
          ? null
          : signDelivery({ secret: request.alternateSecret, body, id, timestampSeconds });
      const timestamp = String(timestampSeconds);
      return {
        "Content-Type": "application/json",
        "User-Agent": userAgent,
        // A compressed answer would have to be unpacked to be shown, and could be a bomb.
        "Accept-Encoding": "identity",
        [`${prefix}-Signature-256`]: current.sha256,
        ...(alternate === null ? undefined : { [`${prefix}-Signature-256-Alt`]: alternate.sha256 }),
        [`${prefix}-Timestamp`]: timestamp,
        [`${prefix}-Event-Id`]: id,
        [`${prefix}-Event-Type`]: request.eventType,
        [`${prefix}-Delivery-Id`]: request.deliveryId,
        [`${prefix}-Attempt`]: String(request.attempt),
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "webhook-signature": [
          current.v1,
          ...(alternate === null ? [] : [alternate.v1]),
          ...(signingKeys ?? []).map((key) => signAsymmetric(key, { id, timestamp, body })),
        ].join(" "),
      };
    },
  };
}
