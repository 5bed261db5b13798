/** The deployment's signing keys of a purpose, in memory. Every process has the same keys and applies changes at once. */
import type { Keyring } from "#crypto/keyring.ts";
import type { Queryable } from "#database/pool.ts";
import {
  hasCurrentKey,
  insertFirstKey,
  type KeyPurpose,
  listLiveKeys,
  listPublicKeys,
  type PublicKeyRow,
  type SigningAlgorithm,
  type SigningKeyRow,
} from "#database/repositories/tokens/signing-keys.ts";
import type { Clock, Timer, Timers } from "#domain/clock.ts";
import { SignetError } from "#domain/errors.ts";
import { TOKEN_LIFETIME_SECONDS } from "#domain/identity.ts";
import type { Logger } from "#observability/logger.ts";
import { type SigningKeyState, statesAt } from "./lifecycle.ts";
import {
  generateSigningKey,
  openSigningKey,
  openVerificationKey,
  type PublicJwk,
  type SigningKey,
  type VerificationKey,
} from "./signing-key.ts";

const REFRESH_MS = 60_000;
/** Minimum time between refreshes caused by tokens with unknown keys, in milliseconds. */
const UNKNOWN_KEY_COOLDOWN_MS = 30_000;
/** How long a revoked key is remembered: slightly longer than its last tokens are valid. In milliseconds. */
const REVOKED_KEPT_MS = (TOKEN_LIFETIME_SECONDS + 300) * 1_000;

/** The result of looking up a key id. */
export type KeyLookup = VerificationKey | "revoked" | undefined;

export interface FirstKeyOptions {
  /** Role signet_operator. */
  readonly db: Queryable;
  readonly keyring: Keyring;
  readonly clock: Clock;
  readonly purpose: KeyPurpose;
  readonly alg: SigningAlgorithm;
}

/** Creates the deployment's first signing key of a purpose if there is none. Processes may call it concurrently. */
export async function ensureSigningKey(options: FirstKeyOptions): Promise<void> {
  const { db, keyring, clock, purpose, alg } = options;
  if (!(await hasCurrentKey(db, purpose))) {
    await insertFirstKey(db, purpose, await generateSigningKey(alg, keyring), clock.now());
  }
}

export type KeyStoreOptions = {
  /** Whether to open without keys if they cannot be read now; they are read again every minute. */
  readonly optional?: boolean;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
} & (
  | {
      /** Role signet_issuer, or signet_worker for purpose set. */
      readonly db: Queryable;
      readonly purpose: KeyPurpose;
      readonly keyring: Keyring;
    }
  | {
      /** Role signet_edge, for a process that only verifies access tokens. */
      readonly db: Queryable;
    }
  | {
      /** Returns the public halves, for a process without a database. */
      readonly read: () => Promise<readonly PublicKeyRow[]>;
    }
);

/** A key in memory: its times, and the keys opened from its row. */
interface HeldKey {
  readonly kid: string;
  readonly activatedAt: number;
  readonly retiredAt: number | null;
  readonly revokedAt: number | null;
  readonly verification: VerificationKey;
  readonly jwk: PublicJwk;
  /** Undefined if it is no longer needed or could not be opened. */
  readonly signing: SigningKey | undefined;
}

function hold(row: PublicKeyRow, signing: SigningKey | undefined): HeldKey {
  return {
    kid: row.kid,
    activatedAt: row.activated_at.getTime(),
    retiredAt: row.retired_at?.getTime() ?? null,
    revokedAt: row.revoked_at?.getTime() ?? null,
    verification: openVerificationKey(row),
    jwk: row.public_jwk as unknown as PublicJwk,
    signing,
  };
}

/** Opens the private halves of the keys that sign now or will sign. Reuses those already open. */
async function openPrivateHalves(
  rows: readonly SigningKeyRow[],
  before: readonly HeldKey[],
  { keyring, log }: { readonly keyring: Keyring; readonly log: Logger },
): Promise<HeldKey[]> {
  const held: HeldKey[] = [];
  let failure: unknown;
  for (const row of rows) {
    let signing = before.find(({ kid }) => kid === row.kid)?.signing;
    if (row.state === "GONE" || row.state === "PREVIOUS") {
      signing = undefined;
    } else if (signing === undefined) {
      try {
        signing = await openSigningKey(row, keyring);
      } catch (error) {
        failure = error;
        log.error({ err: error, kid: row.kid }, "a signing key could not be opened");
      }
    }
    held.push(hold(row, signing));
  }
  if (failure !== undefined && held.every(({ signing }) => signing === undefined)) {
    throw failure;
  }
  return held;
}

async function readKeys(
  options: KeyStoreOptions,
  before: readonly HeldKey[],
  revokedSince: Date,
): Promise<HeldKey[]> {
  if ("read" in options) {
    return (await options.read()).map((row) => hold(row, undefined));
  }
  if (!("keyring" in options)) {
    return (await listPublicKeys(options.db, revokedSince)).map((row) => hold(row, undefined));
  }
  const { db, purpose } = options;
  return await openPrivateHalves(await listLiveKeys(db, purpose, revokedSince), before, options);
}

/** The states of the keys at an instant. */
interface Standing {
  readonly at: number;
  readonly published: ReadonlyMap<string, HeldKey>;
  readonly signing: HeldKey | undefined;
}

/** How long the states are cached. They are read for every token, but rarely change. */
const STANDING_MS = 1_000;

function standingAt(keys: readonly HeldKey[], at: number): Standing {
  const states = statesAt(keys, at);
  const isIn = (wanted: readonly SigningKeyState[]) => (key: HeldKey) =>
    wanted.includes(states.get(key.kid) ?? "GONE");
  const begun = keys
    .filter(isIn(["CURRENT", "PREVIOUS"]))
    .toSorted((left, right) => right.activatedAt - left.activatedAt);
  return {
    at,
    published: new Map(keys.filter(isIn(["NEXT", "CURRENT", "PREVIOUS"])).map((key) => [key.kid, key])),
    // If the current key could not be opened, the previous one signs.
    signing: begun.find(({ signing }) => signing !== undefined),
  };
}

function unavailable(detail: string): SignetError {
  return new SignetError("UNAVAILABLE", { detail, headers: { "retry-after": "1" } });
}

/** Nothing is known about a token then. @throws SignetError UNAVAILABLE */
function refuseWithoutKeys(): never {
  throw unavailable("There are no keys to check tokens with yet.");
}

/** The signing keys of a purpose, or of all for a process that only verifies. */
export class KeyStore {
  readonly #options: KeyStoreOptions;
  readonly #timer: Timer;
  readonly #ends: (() => Promise<unknown>)[] = [];
  #keys: readonly HeldKey[] = [];
  #standing: Standing = standingAt([], -Infinity);
  #readAt = -Infinity;
  #reads = 0;
  #applied = 0;
  #reading: Promise<void> | undefined;

  private constructor(options: KeyStoreOptions) {
    this.#options = options;
    this.#timer = options.timers.every(REFRESH_MS, () => {
      this.refresh().catch((error: unknown) =>
        options.log.warn({ err: error }, "signing keys could not be read again"),
      );
    });
    this.#timer.unref();
  }

  /** Opens the key store and reads the keys. */
  static async open(options: KeyStoreOptions): Promise<KeyStore> {
    const store = new KeyStore(options);
    await store.refresh().catch(async (error: unknown) => {
      if (options.optional !== true) {
        await store.close();
        throw error;
      }
      options.log.warn({ err: error }, "signing keys could not be read");
    });
    return store;
  }

  /** Returns the signing key. Throws `UNAVAILABLE` if there is none. */
  signingKey(): SigningKey {
    const signing = this.#current().signing?.signing;
    if (signing === undefined) {
      throw unavailable("There is no signing key.");
    }
    return signing;
  }

  /** Returns when it began to sign, in Unix milliseconds; 0 if there is none. */
  signingSince(): number {
    return this.#current().signing?.activatedAt ?? 0;
  }

  /** Returns the public half of a published key. Reads the database if the key is unknown. */
  verificationKey(kid: string): KeyLookup | Promise<KeyLookup> {
    const found = this.#lookUp(kid);
    if (found !== undefined) {
      return found;
    }
    // Keys that are being read may include it.
    const isFresh = this.#options.clock.now() - this.#readAt < UNKNOWN_KEY_COOLDOWN_MS;
    const fresh = isFresh ? this.#reading : this.refresh();
    if (fresh === undefined && this.#keys.length > 0) {
      return undefined;
    }
    return Promise.resolve(fresh).then(() =>
      this.#keys.length === 0 ? refuseWithoutKeys() : this.#lookUp(kid),
    );
  }

  /** Returns the public halves for `/.well-known/jwks.json`. */
  publicKeys(): readonly PublicJwk[] {
    return [...this.#current().published.values()].map(({ jwk }) => jwk);
  }

  /** Reads the keys again. */
  async refresh(): Promise<void> {
    const mine = this.#read().finally(
      () => void (this.#reading = this.#reading === mine ? undefined : this.#reading),
    );
    this.#reading = mine;
    await mine;
  }

  /** Adds what ends with the store. */
  endWith(end: () => Promise<unknown>): this {
    this.#ends.push(end);
    return this;
  }

  /** Stops the periodic refresh, and ends what was added, in order. */
  async close(): Promise<void> {
    this.#options.timers.cancel(this.#timer);
    for (const end of this.#ends) {
      await end();
    }
  }

  async #read(): Promise<void> {
    const { clock } = this.#options;
    this.#readAt = clock.now();
    this.#reads += 1;
    const number = this.#reads;
    const held = await readKeys(this.#options, this.#keys, new Date(this.#readAt - REVOKED_KEPT_MS));
    // Of two concurrent reads, the later one has newer data.
    if (number > this.#applied) {
      this.#applied = number;
      this.#keys = held;
      this.#standing = standingAt(held, clock.now());
    }
  }

  #current(): Standing {
    const now = this.#options.clock.now();
    if (now - this.#standing.at >= STANDING_MS || now < this.#standing.at) {
      this.#standing = standingAt(this.#keys, now);
    }
    return this.#standing;
  }

  #lookUp(kid: string): KeyLookup {
    const isRevoked = (key: HeldKey): boolean => key.kid === kid && key.revokedAt !== null;
    const found = this.#current().published.get(kid)?.verification;
    return found ?? (this.#keys.some(isRevoked) ? "revoked" : undefined);
  }
}
