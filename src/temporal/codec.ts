/**
 * Decrypts the payloads of histories that 0.3.0 encrypted (`SIGNET_TEMPORAL_CODEC=on`). Nothing encrypts them any more.
 * 0.4.0 is the last version that needs it: such workflows end within 13 days.
 */
import { createRequire } from "node:module";
import type { DataConverter, Payload } from "@temporalio/common";
import type * as Proto from "@temporalio/proto";
import type { Keyring } from "#crypto/keyring.ts";
import { type EnvelopeKey, envelopeAad, namedKey, openEnvelope } from "#crypto/envelope.ts";
import { putBounded } from "#domain/bounded-map.ts";

/** `encoding` of encrypted payloads. */
const ENCRYPTED = "binary/encrypted";
/** Metadata member with the wrapped key. */
const KEY_MEMBER = "signet-key";
const CACHED_KEYS_MAX = 1_000;
const KEY_AAD = envelopeAad("temporal", "", "payload-key", 1);
const PAYLOAD_AAD = envelopeAad("temporal", "", "payload", 1);

// Its exports are created at run time, so a named import does not see them.
const { temporal } = createRequire(import.meta.url)("@temporalio/proto") as typeof Proto;
const { Payload: ProtoPayload } = temporal.api.common.v1;

/** Opens wrapped keys of payloads. */
export type PayloadKeys = Pick<Keyring, "openWithKek">;

/**
 * Returns the data converter of clients and workers. Payloads that are not encrypted pass unchanged. Decoding rejects
 * with EnvelopeError if no known key opens a payload.
 */
export function createDataConverter(keys: PayloadKeys): DataConverter {
  const opened = new Map<string, Promise<EnvelopeKey>>();

  async function keyOf(wrapped: string): Promise<EnvelopeKey> {
    const key = opened.get(wrapped) ?? keys.openWithKek(KEY_AAD, wrapped).then(namedKey);
    putBounded(opened, wrapped, key, CACHED_KEYS_MAX);
    try {
      return await key;
    } catch (error) {
      opened.delete(wrapped);
      throw error;
    }
  }

  async function decodeOne(payload: Payload): Promise<Payload> {
    if (Buffer.from(payload.metadata?.["encoding"] ?? "").toString() !== ENCRYPTED) {
      return payload;
    }
    const key = await keyOf(Buffer.from(payload.metadata?.[KEY_MEMBER] ?? "").toString());
    return ProtoPayload.decode(openEnvelope(key, PAYLOAD_AAD, Buffer.from(payload.data ?? "").toString()));
  }

  const decode = async (payloads: Payload[]): Promise<Payload[]> =>
    await Promise.all(payloads.map(decodeOne));
  return { payloadCodecs: [{ encode: async (payloads) => await Promise.resolve(payloads), decode }] };
}
