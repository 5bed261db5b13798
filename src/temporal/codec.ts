/**
 * Payloads of workflows, encrypted before Temporal sees them (`SIGNET_TEMPORAL_CODEC=on`): AES-256-GCM under a key that
 * this process makes and the key-encryption key wraps. The wrapped key goes with each payload, so whoever has the
 * key-encryption keys can read a history, and nobody else. What is not encrypted is passed on as it is: histories from
 * before, and signals that operators type into the UI or the CLI.
 */
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import type { DataConverter, Payload, PayloadCodec } from "@temporalio/common";
import type * as Proto from "@temporalio/proto";
import type { Keyring } from "../crypto/keyring.ts";
import { type EnvelopeKey, envelopeAad, namedKey, openEnvelope, sealEnvelope } from "../crypto/envelope.ts";
import { putBounded } from "../domain/bounded-map.ts";
import type { Clock } from "../domain/clock.ts";
import type { RandomBytes } from "../domain/ids.ts";

/** `encoding` of what this codec has made. */
export const ENCRYPTED = "binary/encrypted";
/** Metadata that holds the wrapped key. */
const KEY_MEMBER = "signet-key";
const KEY_BYTES = 32;
/** A key is used for so long by the process that made it: a new key-encryption key takes hold by then. */
const KEY_MS = 3_600_000;
const CACHED_KEYS_MAX = 1_000;
const KEY_AAD = envelopeAad("temporal", "", "payload-key", 1);
const PAYLOAD_AAD = envelopeAad("temporal", "", "payload", 1);

// Its names cannot be seen by an import: it assembles its exports as it runs.
const { temporal } = createRequire(import.meta.url)("@temporalio/proto") as typeof Proto;
const { Payload: ProtoPayload } = temporal.api.common.v1;

export interface CodecServices {
  readonly keyring: Pick<Keyring, "sealWithKek" | "openWithKek">;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
}

interface OwnKey {
  readonly key: EnvelopeKey;
  readonly wrapped: Uint8Array;
  readonly untilMs: number;
}

/** Makes the codec of a process. `decode` rejects with EnvelopeError for what no known key opens. */
export function createPayloadCodec({ keyring, clock, randomBytes }: CodecServices): PayloadCodec {
  const opened = new Map<string, Promise<EnvelopeKey>>();
  let own: Promise<OwnKey> | undefined;

  async function make(): Promise<OwnKey> {
    const key = Buffer.from(randomBytes(KEY_BYTES));
    const wrapped = await keyring.sealWithKek(KEY_AAD, key);
    return { key: namedKey(key), wrapped: Buffer.from(wrapped), untilMs: clock.now() + KEY_MS };
  }

  async function ownKey(): Promise<OwnKey> {
    own ??= make();
    try {
      const current = await own;
      if (current.untilMs > clock.now()) {
        return current;
      }
    } catch {
      // The key-encryption key was out of reach: asked again below.
    }
    own = make();
    return await own;
  }

  async function keyOf(wrapped: string): Promise<EnvelopeKey> {
    const key = opened.get(wrapped) ?? keyring.openWithKek(KEY_AAD, wrapped).then(namedKey);
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

  return {
    encode: async (payloads) => {
      const { key, wrapped } = await ownKey();
      return payloads.map((payload) => ({
        metadata: { encoding: Buffer.from(ENCRYPTED), [KEY_MEMBER]: wrapped },
        data: Buffer.from(sealEnvelope(key, PAYLOAD_AAD, ProtoPayload.encode(payload).finish(), randomBytes)),
      }));
    },
    decode: async (payloads) => await Promise.all(payloads.map(decodeOne)),
  };
}

/** Where the converter of failures is that hides what they say in a payload. */
export const FAILURE_CONVERTER = fileURLToPath(new URL("failure-converter.mjs", import.meta.url));

/** What clients and workers need to use the codec; nothing where there is none. */
export function dataConverterOf(codec: PayloadCodec | undefined): { readonly dataConverter?: DataConverter } {
  return codec === undefined
    ? {}
    : { dataConverter: { payloadCodecs: [codec], failureConverterPath: FAILURE_CONVERTER } };
}
