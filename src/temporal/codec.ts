/**
 * Encrypts workflow payloads before Temporal sees them (`SIGNET_TEMPORAL_CODEC=on`): AES-256-GCM with a key of this
 * process, which the key-encryption key wraps. Each payload includes the wrapped key, so only holders of the
 * key-encryption keys can read a history. Unencrypted payloads pass unchanged: older histories, and signals that
 * operators type into the UI or the CLI.
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

/** `encoding` of payloads of this codec. */
export const ENCRYPTED = "binary/encrypted";
/** Metadata member with the wrapped key. */
const KEY_MEMBER = "signet-key";
const KEY_BYTES = 32;
/** How long a process uses its own key. A new key-encryption key takes effect within this time. */
const KEY_MS = 3_600_000;
const CACHED_KEYS_MAX = 1_000;
const KEY_AAD = envelopeAad("temporal", "", "payload-key", 1);
const PAYLOAD_AAD = envelopeAad("temporal", "", "payload", 1);

// Its exports are created at run time, so a named import does not see them.
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

/** Creates the codec of a process. `decode` rejects with EnvelopeError if no known key opens the payload. */
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
      // The key-encryption key was unreachable; retried below.
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

/** Path of the failure converter that hides messages and stacks in a payload. */
export const FAILURE_CONVERTER = fileURLToPath(new URL("failure-converter.mjs", import.meta.url));

/** Returns the codec options of clients and workers; empty without a codec. */
export function dataConverterOf(codec: PayloadCodec | undefined): { readonly dataConverter?: DataConverter } {
  return codec === undefined
    ? {}
    : { dataConverter: { payloadCodecs: [codec], failureConverterPath: FAILURE_CONVERTER } };
}
