/** Rotates the signing keys: activates due keys, removes ended ones, and creates the next. */
import { appendEntry } from "#compliance/append-entry.ts";
import type { Actor, EntryType } from "#compliance/entry-types.ts";
import type { Keyring } from "#crypto/keyring.ts";
import type { Pool, Queryable } from "#database/pool.ts";
import {
  insertFirstKey,
  insertNextKey,
  type KeyPurpose,
  lockSigningKeys,
  markCurrent,
  markGone,
  markPrevious,
  moveActivation,
  type NewSigningKey,
  type SigningAlgorithm,
  type SigningKeyRow,
} from "#database/repositories/tokens/signing-keys.ts";
import { transaction } from "#database/transaction.ts";
import type { Clock, GuardedClock, Timers } from "#domain/clock.ts";
import type { RandomBytes } from "#domain/ids.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import { generateSigningKey } from "./signing-key.ts";
import { nextActivation, PUBLISHED_AFTER_MS, PUBLISHED_BEFORE_MS } from "./lifecycle.ts";

/**
 * How often an api looks whether the keys of access tokens are due, as the schedule does for those of security events. A
 * revoked key that had no successor is replaced within it, once the key service answers.
 */
const EVERY_MS = 60_000;

export interface SigningKeyServices {
  /** Role signet_operator. */
  readonly pool: Pool;
  readonly keyring: Keyring;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly randomBytes: RandomBytes;
  /** Algorithms of new keys. */
  readonly algs: KeyAlgorithms;
}

/** The algorithm of each purpose. */
export type KeyAlgorithms = Readonly<Record<KeyPurpose, SigningAlgorithm>>;

/** Author of a change, for the compliance log. */
export interface Author {
  readonly actor: Actor;
  readonly requestId?: string;
  readonly reason?: string | undefined;
}

/** Ids of the changed keys. */
export interface KeyChanges {
  readonly created: readonly string[];
  readonly activated: readonly string[];
  readonly retired: readonly string[];
  readonly gone: readonly string[];
}

/** `hastened`: an operator moved its activation forward. */
type Step = keyof KeyChanges | "hastened";

const ENTRIES = {
  created: "key.created",
  activated: "key.activated",
  retired: "key.retired",
  gone: "key.gone",
  hastened: "key.hastened",
} as const satisfies Record<Step, EntryType>;

/** One change of the keys of a purpose: a transaction with the lock on them, and the steps so far. */
export class KeyChange {
  readonly db: Queryable;
  readonly now: Date;
  readonly #purpose: KeyPurpose;
  readonly #services: SigningKeyServices;
  readonly #done: { readonly step: Step; readonly kid: string }[] = [];

  constructor(db: Queryable, purpose: KeyPurpose, services: SigningKeyServices) {
    this.db = db;
    this.#purpose = purpose;
    this.now = new Date(services.clock.now());
    this.#services = services;
  }

  get changes(): KeyChanges {
    const kids = (step: Step): string[] =>
      this.#done.filter((done) => done.step === step).map(({ kid }) => kid);
    return {
      created: kids("created"),
      activated: kids("activated"),
      retired: kids("retired"),
      gone: kids("gone"),
    };
  }

  /** Updates the stored states to match the times. Returns the remaining keys, newest first. */
  async catchUp(): Promise<readonly SigningKeyRow[]> {
    const keys = await this.lock();
    const due = keys.find(({ state, activated_at: at }) => state === "NEXT" && at <= this.now);
    if (due !== undefined) {
      const current = keys.find(({ state }) => state === "CURRENT");
      if (current !== undefined) {
        await markPrevious(this.db, current, due.activated_at);
        this.#note("retired", current.kid);
      }
      await this.activate(due.kid, due.activated_at);
    }
    for (const { kid, retired_at: retiredAt } of await this.lock()) {
      if (retiredAt !== null && retiredAt.getTime() + PUBLISHED_AFTER_MS <= this.now.getTime()) {
        await markGone(this.db, this.#named(kid));
        this.#note("gone", kid);
      }
    }
    return await this.lock();
  }

  /** Returns the keys that are not gone, newest first. */
  async lock(): Promise<readonly SigningKeyRow[]> {
    return await lockSigningKeys(this.db, this.#purpose);
  }

  async activate(kid: string, at: Date): Promise<void> {
    await markCurrent(this.db, this.#named(kid), at);
    this.#note("activated", kid);
  }

  /** Stores a key, by default a new one, that signs from now on. There must be no current key. */
  async createCurrent(given?: NewSigningKey): Promise<void> {
    const key = given ?? (await this.#generate());
    await insertFirstKey(this.db, this.#purpose, key, this.now.getTime());
    this.#note("created", key.kid);
    this.#note("activated", key.kid);
  }

  async bringForward(kid: string, activatedAt: Date): Promise<void> {
    await moveActivation(this.db, this.#named(kid), activatedAt);
    this.#note("hastened", kid);
  }

  async createNext(activatedAt: Date): Promise<void> {
    const key = await this.#generate();
    await insertNextKey(this.db, this.#purpose, key, { createdAt: this.now, activatedAt });
    this.#note("created", key.kid);
  }

  /** Writes the steps to the compliance log. */
  async record(author: Author): Promise<void> {
    for (const { step, kid } of this.#done) {
      await appendEntry(
        this.db,
        { ...author, type: ENTRIES[step], tenant: null, target: kid },
        this.#services,
      );
    }
  }

  #note(step: Step, kid: string): void {
    this.#done.push({ step, kid });
  }

  #named(kid: string): Pick<SigningKeyRow, "kid" | "purpose"> {
    return { kid, purpose: this.#purpose };
  }

  async #generate(): Promise<NewSigningKey> {
    const { algs, keyring } = this.#services;
    return await generateSigningKey(algs[this.#purpose], keyring);
  }
}

/**
 * Rotates the keys of a purpose. Runs on a schedule: a worker rotates the keys of security events, and an api those of
 * access tokens, which a worker must not hold. May run late, repeatedly or concurrently.
 */
export async function rotateSigningKeys(
  services: SigningKeyServices,
  purpose: KeyPurpose,
  author: Author,
): Promise<KeyChanges> {
  return await transaction(services.pool, async (db) => {
    const change = new KeyChange(db, purpose, services);
    const keys = await change.catchUp();
    const current = keys.find(({ state }) => state === "CURRENT");
    if (current === undefined) {
      await change.createCurrent();
    } else if (keys.every(({ state }) => state !== "NEXT")) {
      const activation = nextActivation(current.activated_at.getTime(), change.now.getTime());
      if (activation !== undefined) {
        await change.createNext(new Date(activation));
      }
    }
    await change.record(author);
    return change.changes;
  });
}

/** Makes the next key of a purpose sign as soon as it has been published long enough. Repeating it has no effect. */
export async function advanceRotation(
  services: SigningKeyServices,
  purpose: KeyPurpose,
  author: Author,
): Promise<SigningKeyRow> {
  return await transaction(services.pool, async (db) => {
    const change = new KeyChange(db, purpose, services);
    const next = (await change.catchUp()).find(({ state }) => state === "NEXT");
    if (next === undefined) {
      await change.createNext(new Date(change.now.getTime() + PUBLISHED_BEFORE_MS));
    } else {
      const soonest = Math.max(next.created_at.getTime() + PUBLISHED_BEFORE_MS, change.now.getTime());
      if (soonest < next.activated_at.getTime()) {
        await change.bringForward(next.kid, new Date(soonest));
      }
    }
    const made = (await change.lock()).find(({ state }) => state === "NEXT");
    await change.record(author);
    return made as SigningKeyRow;
  });
}

/** Returns the job that rotates the keys of access tokens, which apis do. */
export function signingKeysJob(services: SigningKeyServices & { readonly clock: GuardedClock }): UpkeepJob {
  return {
    name: "signing keys",
    everyMs: EVERY_MS,
    run: async () => {
      services.clock.requireRight();
      await rotateSigningKeys(services, "access", { actor: "system:rotateSigningKeys" });
    },
  };
}
