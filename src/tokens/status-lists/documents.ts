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

/** Serves lists by id. */
export interface StatusListDocuments {
  readonly ttlSeconds: number;
  /** Returns the current list; undefined if there is none. Rejects if the database is unavailable. */
  of(id: string): Promise<PublicDocument | undefined>;
}

/** Creates the lists of one process. */
export function createStatusListDocuments(options: StatusListDocumentsOptions): StatusListDocuments {
  const { issuer, ttlSeconds, uriOf, find, readRevoked, view, signingKey, replaceRevokedKey, clock } =
    options;
  const ready = new Map<string, Made>();
  const making = new Map<string, Promise<Made | undefined>>();
  const signedAgainSeconds = Math.max(SIGNED_AGAIN_SECONDS, ttlSeconds);

  async function sign(id: string, bits: Buffer): Promise<Pick<Made, "kid" | "signedAtMs" | "document">> {
    clock.requireRight();
    const signedAtMs = clock.now();
    const iat = Math.floor(signedAtMs / 1_000);
    const key = signingKey();
    const claims = { iss: issuer, sub: uriOf(id), iat, exp: iat + 2 * signedAgainSeconds, ttl: ttlSeconds };
    const jwt = await signStatusList(bits, claims, key);
    return { kid: key.kid, signedAtMs, document: makeDocument(STATUS_LIST_JWT, jwt, await packed(jwt)) };
  }

  async function make(id: string, before: Made | undefined): Promise<Made | undefined> {
    // Before the read, which then covers at least these.
    const { applied } = view;
    const list = await find(id);
    if (list === undefined) {
      ready.delete(id);
      return undefined;
    }
    const bits = statusBits(await readRevoked(list), list);
    await replaceRevokedKey();
    const nowMs = clock.now();
    const isAsBefore =
      before !== undefined &&
      before.bits.equals(bits) &&
      before.kid === signingKey().kid &&
      nowMs - before.signedAtMs < signedAgainSeconds * 1_000;
    const settled = before === undefined || before.applied === applied;
    const signed = isAsBefore ? before : { bits, ...(await sign(id, bits)) };
    const usedMs = Math.min(ttlSeconds * 1_000, settled ? Infinity : SETTLED_MS);
    // What is sent remains valid for the ttl.
    const untilMs = Math.min(nowMs + usedMs, signed.signedAtMs + signedAgainSeconds * 1_000);
    const made: Made = { ...signed, applied, untilMs };
    putBounded(ready, id, made, DOCUMENTS_MAX);
    return made;
  }

  function currentOf(id: string): Made | undefined {
    const made = ready.get(id);
    return made !== undefined &&
      view.current &&
      made.applied === view.applied &&
      made.kid === signingKey().kid &&
      clock.now() < made.untilMs
      ? made
      : undefined;
  }

  async function makeOnce(id: string): Promise<Made | undefined> {
    const running = making.get(id) ?? make(id, ready.get(id)).finally(() => making.delete(id));
    making.set(id, running);
    return await running;
  }

  return {
    ttlSeconds,
    of: async (id) => {
      // A list that is being made already may lack a revocation that is known now.
      await making.get(id);
      return (currentOf(id) ?? (await makeOnce(id)))?.document;
    },
  };
}
