/**
 * Key management services as key-encryption keys: the root key never leaves the service (decision 31). The service
 * encrypts data keys and private signing keys themselves, with the place of each as authenticated context.
 *
 * Envelopes: `kms1.<key id>.<ciphertext>`, base64url. They live beside envelopes of local keys.
 */
import { createHash } from "node:crypto";
import type { KmsKey } from "#config/key-settings.ts";
import { SignetError } from "#domain/errors.ts";
import { within } from "#runtime/within.ts";
import { EnvelopeError, envelopeKeyId } from "./envelope.ts";
import type { KeyEncryption } from "./key-encryption.ts";
import type { Timers } from "#domain/clock.ts";

/** Longest call, with the client's retries. Requests wait for it only when a key is used for the first time. */
const CALL_MS = 5_000;
/** After a call without an answer, further calls fail at once for this long. */
const PAUSE_MS = 1_000;
const VERSION = "kms1";
const ID_DIGITS = 12;

/** What a rejected call means. */
export type CallFailure =
  /** The ciphertext is not one of this key and this context. */
  | "invalid"
  /** The service answered: this key must not be used, for instance because it is disabled or access is denied. */
  | "refused"
  /** Anything else; a later call may succeed. */
  | "unavailable";

/** A key management service, by its official client. */
export interface KeyService {
  encrypt(key: string, plaintext: Uint8Array, context: string): Promise<Uint8Array>;
  decrypt(key: string, ciphertext: Uint8Array, context: string): Promise<Uint8Array>;
  meaningOf(error: unknown): CallFailure;
}

/** The key management service refused or did not answer. The cause says why; callers of the API do not see it. */
export class KeyServiceError extends SignetError {
  /** Whether the service refused the key. */
  readonly refused: boolean;

  constructor(cause: unknown, refused: boolean) {
    super("UNAVAILABLE", {
      detail: "A key cannot be unwrapped at the moment.",
      headers: { "retry-after": "1" },
      cause,
    });
    this.refused = refused;
  }
}

/** Returns the id of a key in envelopes: its kind, and a digest of its name. */
function idOf({ name, awsRegion }: KmsKey): string {
  const digest = createHash("sha256").update(name).digest("hex").slice(0, ID_DIGITS);
  return `${awsRegion === undefined ? "gcp" : "aws"}-${digest}`;
}

export interface ServiceEncryptionOptions {
  /** The key that wraps; undefined: the local key does. */
  readonly current: KmsKey | undefined;
  /** Keys that only unwrap. */
  readonly previous: readonly KmsKey[];
  /** Returns the service that holds a key. */
  readonly serviceOf: (key: KmsKey) => KeyService;
  /** Keys that this process may read: they unwrap what they have wrapped. */
  readonly local: KeyEncryption | undefined;
  readonly timers: Timers;
}

/** Creates a provider whose keys are held by key management services, beside those of this process. */
export function createServiceEncryption(options: ServiceEncryptionOptions): KeyEncryption {
  const { current, previous, serviceOf, local, timers } = options;
  const known = new Map(
    [...previous, ...(current === undefined ? [] : [current])].map((key) => [idOf(key), key]),
  );
  let paused: { readonly untilMs: number; readonly cause: unknown } | undefined;

  async function call(
    key: KmsKey,
    operation: "encrypt" | "decrypt",
    input: readonly [bytes: Uint8Array, context: string],
  ): Promise<Buffer> {
    if (paused !== undefined && timers.monotonic() < paused.untilMs) {
      throw new KeyServiceError(paused.cause, false);
    }
    const service = serviceOf(key);
    try {
      return Buffer.from(await within(timers, CALL_MS, service[operation](key.name, ...input)));
    } catch (error) {
      const failure = service.meaningOf(error);
      if (failure === "invalid") {
        throw new EnvelopeError("changed, or sealed for another place", { cause: error });
      }
      if (failure === "unavailable") {
        paused = { untilMs: timers.monotonic() + PAUSE_MS, cause: error };
      }
      throw new KeyServiceError(error, failure === "refused");
    }
  }

  function requireLocal(envelope: string): KeyEncryption {
    if (local === undefined) {
      throw new EnvelopeError(`sealed with key ${envelopeKeyId(envelope)}, which this process does not have`);
    }
    return local;
  }

  return {
    currentKeyId: async () => (current === undefined ? await requireLocal("").currentKeyId() : idOf(current)),
    wrap: async (aad, plaintext) => {
      if (current === undefined) {
        return await requireLocal("").wrap(aad, plaintext);
      }
      const ciphertext = await call(current, "encrypt", [plaintext, aad]);
      return [VERSION, idOf(current), ciphertext.toString("base64url")].join(".");
    },
    unwrap: async (aad, envelope) => {
      const [version, id = "", ciphertext = ""] = envelope.split(".");
      const key = version === VERSION ? known.get(id) : undefined;
      return key === undefined
        ? await requireLocal(envelope).unwrap(aad, envelope)
        : await call(key, "decrypt", [Buffer.from(ciphertext, "base64url"), aad]);
    },
  };
}
