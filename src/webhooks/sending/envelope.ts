/** The body of a delivery (wire.md, Events). */

/** What an envelope is made of. */
export interface EnvelopeParts {
  readonly eventId: string;
  readonly type: string;
  /** When the event occurred or was accepted: RFC 3339, UTC, milliseconds. */
  readonly timestamp: string;
  /** Unix seconds of this attempt; equals the signed headers' timestamp. */
  readonly sentAt: number;
  /** 1 to 17. */
  readonly attempt: number;
  readonly endpointId: string;
  readonly deliveryId: string;
  /** The publisher's own id of the event; the member is absent where it gave none. */
  readonly sourceId?: string | null;
  /** Whether the service says it itself: only then the body has `"source":"service"`. */
  readonly own?: boolean;
  /** The endpoint's metadata as the tenant wrote it. */
  readonly metadataJson: string | null;
  /** The event's data as the publisher wrote it; in bytes of UTF-8 where it is not needed as text. */
  readonly dataJson: string | Uint8Array;
}

const BRACE = Buffer.from("}");

/**
 * The exact bytes to sign and send. `data` and `metadata` are spliced in as raw text: parsing and writing
 * them again would lose 1.0, 2^60 and the order of members.
 */
export function buildEnvelope(parts: EnvelopeParts): Buffer {
  const text = JSON.stringify;
  const sourceId = typeof parts.sourceId === "string" ? `,"source_id":${text(parts.sourceId)}` : "";
  const source = parts.own === true ? ',"source":"service"' : "";
  const head =
    `{"id":${text(parts.eventId)},"type":${text(parts.type)},"timestamp":${text(parts.timestamp)}` +
    `,"sent_at":${parts.sentAt},"attempt":${parts.attempt}` +
    `,"endpoint_id":${text(parts.endpointId)},"delivery_id":${text(parts.deliveryId)}` +
    `${sourceId}${source},"metadata":${parts.metadataJson ?? "null"},"data":`;
  return typeof parts.dataJson === "string"
    ? Buffer.from(`${head}${parts.dataJson}}`)
    : Buffer.concat([Buffer.from(head), parts.dataJson, BRACE]);
}
