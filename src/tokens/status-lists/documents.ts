/**
 * The status lists that a process serves. One is made again when its age reaches the ttl, or when there is a revocation
 * that it may lack; never per request.
 */
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { RevokedPlaces } from "#database/repositories/tokens/status-lists.ts";
import { putBounded } from "#domain/bounded-map.ts";
import type { GuardedClock } from "#domain/clock.ts";
import { makeDocument, type PublicDocument } from "#http/public-document.ts";
import type { RevocationView } from "#revocation/view.ts";
import type { SigningKey } from "../signing-keys/signing-key.ts";
import { signStatusList, STATUS_LIST_JWT, statusBits } from "./status-list.ts";

/** Lists in memory, each up to 0.7 MB. */
const DOCUMENTS_MAX = 64;
/** An unchanged list is signed again at this age, half of its validity: shorter would waste 304s. In seconds. */
const SIGNED_AGAIN_SECONDS = 150;
/** After a revocation, a list is made once more: a token of the target may have been recorded at the same time. */
const SETTLED_MS = 1_000;

const packed = promisify(gzip);

export interface StatusListDocumentsOptions {
  readonly issuer: string;
  readonly ttlSeconds: number;
  readonly uriOf: (id: string) => string;
  /** Returns the list's number; undefined if there is none, or if it has ended. */
  readonly find: (id: string) => Promise<number | undefined>;
  readonly readRevoked: (list: number) => Promise<RevokedPlaces>;
  readonly view: Pick<RevocationView, "applied" | "current">;
  readonly signingKey: () => SigningKey;
  /** Reads the signing keys again if the one that signs is revoked. */
  readonly replaceRevokedKey: () => Promise<unknown>;
  readonly clock: Pick<GuardedClock, "now" | "requireRight">;
}

interface Made {
  readonly bits: Buffer;
  readonly kid: string;
  readonly signedAtMs: number;
  readonly document: PublicDocument;
  /** The revocations that it covers, and until when it can be served. */
  readonly applied: number;
  readonly untilMs: number;
}

/** The lists of one process, by id. */
export class StatusListDocuments {
  readonly #options: StatusListDocumentsOptions;
  readonly #signedAgainSeconds: number;
  readonly #ready = new Map<string, Made>();
  readonly #making = new Map<string, Promise<Made | undefined>>();

  constructor(options: StatusListDocumentsOptions) {
    this.#options = options;
    this.#signedAgainSeconds = Math.max(SIGNED_AGAIN_SECONDS, options.ttlSeconds);
  }

  get ttlSeconds(): number {
    return this.#options.ttlSeconds;
  }

  /** Returns the current list; undefined if there is none. Rejects if the database is unavailable. */
  async of(id: string): Promise<PublicDocument | undefined> {
    // A list that is being made already may lack a revocation that is known now.
    await this.#making.get(id);
    return (this.#currentOf(id) ?? (await this.#makeOnce(id)))?.document;
  }

  #currentOf(id: string): Made | undefined {
    const { view, signingKey, clock } = this.#options;
    const made = this.#ready.get(id);
    return made !== undefined &&
      view.current &&
      made.applied === view.applied &&
      made.kid === signingKey().kid &&
      clock.now() < made.untilMs
      ? made
      : undefined;
  }

  async #makeOnce(id: string): Promise<Made | undefined> {
    const making = this.#making.get(id) ?? this.#make(id).finally(() => this.#making.delete(id));
    this.#making.set(id, making);
    return await making;
  }

  async #make(id: string): Promise<Made | undefined> {
    const { ttlSeconds, find, readRevoked, view, signingKey, replaceRevokedKey, clock } = this.#options;
    const before = this.#ready.get(id);
    // Before the read, which then covers at least these.
    const { applied } = view;
    const list = await find(id);
    if (list === undefined) {
      this.#ready.delete(id);
      return undefined;
    }
    const bits = statusBits(await readRevoked(list), list);
    await replaceRevokedKey();
    const nowMs = clock.now();
    const signedAgainMs = this.#signedAgainSeconds * 1_000;
    const isAsBefore =
      before !== undefined &&
      before.bits.equals(bits) &&
      before.kid === signingKey().kid &&
      nowMs - before.signedAtMs < signedAgainMs;
    const settled = before === undefined || before.applied === applied;
    const signed = isAsBefore ? before : { bits, ...(await this.#sign(id, bits)) };
    const usedMs = Math.min(ttlSeconds * 1_000, settled ? Infinity : SETTLED_MS);
    // What is sent remains valid for the ttl.
    const untilMs = Math.min(nowMs + usedMs, signed.signedAtMs + signedAgainMs);
    const made: Made = { ...signed, applied, untilMs };
    putBounded(this.#ready, id, made, DOCUMENTS_MAX);
    return made;
  }

  async #sign(id: string, bits: Buffer): Promise<Pick<Made, "kid" | "signedAtMs" | "document">> {
    const { issuer, ttlSeconds, uriOf, signingKey, clock } = this.#options;
    clock.requireRight();
    const signedAtMs = clock.now();
    const iat = Math.floor(signedAtMs / 1_000);
    const key = signingKey();
    const exp = iat + 2 * this.#signedAgainSeconds;
    const claims = { iss: issuer, sub: uriOf(id), iat, exp, ttl: ttlSeconds };
    const jwt = await signStatusList(bits, claims, key);
    return { kid: key.kid, signedAtMs, document: makeDocument(STATUS_LIST_JWT, jwt, await packed(jwt)) };
  }
}
