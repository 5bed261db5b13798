/** The body of a delivery (contract 6.4). */

/** Parts of an envelope. */
export interface EnvelopeParts {
  readonly eventId: string;
  readonly type: string;
  /** When the event occurred or was accepted: RFC 3339, UTC, milliseconds. */
  readonly timestamp: string;
  /** Time of this attempt, in Unix seconds; equals the timestamp of the signed headers. */
  readonly sentAt: number;
  /** 1 to 17. */
  readonly attempt: number;
  readonly endpointId: string;
  readonly deliveryId: string;
  /** The publisher's own event id; the member is omitted without one. */
  readonly sourceId?: string | null;
  /** Whether the service itself is the source. Only then the body has `"source":"service"`. */
  readonly own?: boolean;
  /** Endpoint metadata, as the tenant wrote it. */
  readonly metadataJson: string | null;
  /** Event data, as the publisher wrote it; UTF-8 bytes where the text is not needed. */
  readonly dataJson: string | Uint8Array;
}

const BRACE = Buffer.from("}");

/**
 * Returns the exact bytes to sign and send. `data` and `metadata` are inserted as raw text. Parsing and serializing
 * them would change 1.0, 2^60 and the order of members.
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
