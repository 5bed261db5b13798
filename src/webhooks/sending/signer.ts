/** Builds the headers of an outgoing delivery (contract 6.3) with the receiver library's `sign.ts`. */
import type { GuardedClock } from "#domain/clock.ts";
import { signAsymmetric } from "#lib/receiver/ed25519.ts";
import { signDelivery } from "#lib/receiver/sign.ts";
import { SET_TYPE } from "../ssf/set.ts";

/** Keys that sign an endpoint's requests at a given time. */
export interface EndpointSecrets {
  /** The endpoint's current secret, `whsec_…`. */
  readonly secret: string;
  /** The next or previous secret during a rotation. It signs in addition to the current one. */
  readonly alternateSecret?: string | null;
  /** Ed25519 private keys of 32 bytes, the current one first; empty if the endpoint does not use them. */
  readonly signingKeys?: readonly Uint8Array[];
}

/** One attempt of a delivery. */
interface SignedRequest extends EndpointSecrets {
  /** Exactly the bytes that are sent. Their `sent_at` must equal `timestampSeconds`. */
  readonly body: Buffer;
  readonly eventId: string;
  readonly eventType: string;
  readonly deliveryId: string;
  /** 1 to 17. */
  readonly attempt: number;
  readonly timestampSeconds: number;
}

const BRAND_FORMAT = /^[A-Za-z][A-Za-z0-9-]{0,31}$/;
const DOCS_URL_FORMAT = /^[\x21-\x27\x2a-\x7e]+$/;

/** Signs requests. */
export class Signer {
  readonly #prefix: string;
  readonly #userAgent: string;
  readonly #clock: Pick<GuardedClock, "requireRight"> | undefined;

  /**
   * @param options.headerBrand brand that replaces "Service" in `X-Service-…`
   * @param options.docsUrl page that tells receivers who is calling; part of the User-Agent
   * @throws TypeError if one of them is not valid in a header
   */
  constructor(options: {
    readonly headerBrand: string;
    readonly docsUrl: string;
    /** By default, the time is not checked. */
    readonly clock?: Pick<GuardedClock, "requireRight">;
  }) {
    const { headerBrand, docsUrl, clock } = options;
    if (!BRAND_FORMAT.test(headerBrand)) {
      throw new TypeError("headerBrand must be valid in a header name");
    }
    if (!DOCS_URL_FORMAT.test(docsUrl)) {
      throw new TypeError("docsUrl must be a printable URL");
    }
    this.#userAgent = `Signet/1 (+${docsUrl})`;
    this.#prefix = `X-${headerBrand}`;
    this.#clock = clock;
  }

  /**
   * Returns the headers of a request with a security event token, which contains its signature (RFC 8935 section 2).
   *
   * @throws SignetError `CLOCK_SKEWED`
   */
  setHeaders(): Record<string, string> {
    this.#clock?.requireRight();
    return {
      "Content-Type": SET_TYPE,
      Accept: "application/json",
      "User-Agent": this.#userAgent,
      "Accept-Encoding": "identity",
    };
  }

  /**
   * Returns every header of the request except those of the connection (Host, Content-Length, Connection).
   *
   * @throws SignetError `CLOCK_SKEWED`, because receivers would have to reject the timestamp
   */
  headers(request: SignedRequest): Record<string, string> {
    this.#clock?.requireRight();
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
    const prefix = this.#prefix;
    return {
      "Content-Type": "application/json",
      "User-Agent": this.#userAgent,
      // A compressed response would have to be decompressed for display, and could be a bomb.
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
  }
}
