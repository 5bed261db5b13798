/**
 * Places of tokens in status lists (draft-ietf-oauth-status-list). Each process reserves blocks of places, so a token
 * costs no round trip for its place. Its row is written before the token is handed out: one statement for all tokens
 * that are issued at the same time.
 */
import { createCipheriv, createSecretKey } from "node:crypto";
import { type Batcher, createBatcher } from "#database/batcher.ts";
import type { Pool } from "#database/pool.ts";
import {
  forgetStatusLists,
  type PlacedToken,
  type ReservedPlaces,
} from "#database/repositories/tokens/status-lists.ts";
import type { Clock, Timers } from "#domain/clock.ts";
import type { RandomBytes } from "#domain/ids.ts";
import { TOKEN_LIFETIME_SECONDS } from "#domain/identity.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import type { Place, TokenSubject } from "../oauth/access-token.ts";

const HALF_BITS = 10;
const HALF = 1 << HALF_BITS;
/** Places of a list. */
export const LIST_SIZE = HALF * HALF;
const BLOCK = 1_024;
/** How long a process uses a block, and how long a list is open for reservations, in milliseconds. */
const BLOCK_USED_MS = 300_000;
export const LIST_OPEN_MS = 3_600_000;
/** A list ends this long after its last reservation: the block's use, a token's life, and a margin. In milliseconds. */
export const LIST_ENDS_MS = BLOCK_USED_MS + (TOKEN_LIFETIME_SECONDS + 300) * 1_000;
/**
 * Rounds of the Feistel network that orders the places: as many as FF1 has (NIST SP 800-38G), which is for domains of a
 * million and more. With four, a reader of some thousand places could tell the order from a random one.
 */
const ROUNDS = 10;
const TOKENS_PER_STATEMENT = 500;
const STATEMENTS_AT_ONCE = 2;
const JTI_RANDOM_BYTES = 8;
const FORGET_MS = 60_000;
/** Rows of tokens. */
const FORGOTTEN_AT_ONCE = 5_000;

/** Returns the order of a list's places: a bijection on 0 to 2^20 - 1, whose round functions are tables made by AES. */
export function placeOrder(key: Buffer): (ordinal: number) => number {
  const cipher = createCipheriv("aes-256-ctr", createSecretKey(key), Buffer.alloc(16));
  const stream = cipher.update(Buffer.alloc(2 * ROUNDS * HALF));
  return (ordinal) => {
    let left = ordinal >> HALF_BITS;
    let right = ordinal & (HALF - 1);
    for (let round = 0; round < ROUNDS; round += 1) {
      const mixed = left ^ (stream.readUInt16BE(2 * (round * HALF + right)) & (HALF - 1));
      left = right;
      right = mixed;
    }
    return (left << HALF_BITS) | right;
  };
}

/** Returns the `jti` of a token at a place: 8 random bytes, the list's number and the place. */
function jtiOf(list: number, idx: number, randomBytes: RandomBytes): string {
  const bytes = Buffer.alloc(JTI_RANDOM_BYTES + 8);
  bytes.set(randomBytes(JTI_RANDOM_BYTES));
  bytes.writeUInt32BE(list, JTI_RANDOM_BYTES);
  bytes.writeUInt32BE(idx, JTI_RANDOM_BYTES + 4);
  return bytes.toString("base64url");
}

/** Returns the place that a `jti` names in a list; undefined if it names another list's, or none. */
export function placeOfJti(jti: string, list: number): number | undefined {
  const bytes = Buffer.from(jti, "base64url");
  if (bytes.length !== JTI_RANDOM_BYTES + 8 || bytes.readUInt32BE(JTI_RANDOM_BYTES) !== list) {
    return undefined;
  }
  const idx = bytes.readUInt32BE(JTI_RANDOM_BYTES + 4);
  return idx < LIST_SIZE ? idx : undefined;
}

export interface StatusPlacesOptions {
  readonly audiences: readonly string[];
  /** Reserves `count` places. */
  readonly reserve: (count: number) => Promise<ReservedPlaces>;
  readonly insert: (tokens: readonly PlacedToken[]) => Promise<void>;
  readonly uriOf: (id: string) => string;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly randomBytes: RandomBytes;
}

interface Block {
  readonly list: number;
  readonly uri: string;
  readonly order: (ordinal: number) => number;
  readonly until: number;
  next: number;
  left: number;
}

/** Gives tokens their places. There is one in a process. */
export class StatusPlaces {
  readonly #options: StatusPlacesOptions;
  readonly #records: Batcher<PlacedToken, undefined>;
  #block: Block | undefined;
  #reserving: Promise<void> | undefined;

  constructor(options: StatusPlacesOptions) {
    this.#options = options;
    this.#records = createBatcher({
      timers: options.timers,
      flush: async (tokens) => {
        await options.insert(tokens);
        return tokens.map(() => undefined);
      },
      maxItems: TOKENS_PER_STATEMENT,
      maxInFlight: STATEMENTS_AT_ONCE,
    });
  }

  /** Whether tokens of this audience have a place. */
  covers(audience: string): boolean {
    return this.#options.audiences.includes(audience);
  }

  /** Returns a free place. Rejects if the database is unavailable. */
  async take(): Promise<Place> {
    while (
      this.#block === undefined ||
      this.#block.left === 0 ||
      this.#options.clock.now() >= this.#block.until
    ) {
      this.#reserving ??= this.#reserveBlock().finally(() => {
        this.#reserving = undefined;
      });
      await this.#reserving;
    }
    const held = this.#block;
    const { list, uri } = held;
    const idx = held.order(held.next);
    held.next += 1;
    held.left -= 1;
    return { list, uri, idx, jti: jtiOf(list, idx, this.#options.randomBytes) };
  }

  /**
   * Records which token is at a place; resolves when that is durable.
   *
   * @param issuedAt the token's `iat`, in seconds of Unix time
   */
  async record({ list, idx: place }: Place, subject: TokenSubject, issuedAt: number): Promise<void> {
    const { credentialId, certificateThumbprint: x5t } = subject;
    const certificate = x5t === undefined ? null : Buffer.from(x5t, "base64url");
    await this.#records.add({ list, place, credentialId, issuedAt, certificate });
  }

  async #reserveBlock(): Promise<void> {
    const { reserve, uriOf, clock } = this.#options;
    // Counted from before the reservation, which the end of the list is counted from.
    const until = clock.now() + BLOCK_USED_MS;
    const { id, number: list, order_key: orderKey, first } = await reserve(BLOCK);
    this.#block = { list, uri: uriOf(id), order: placeOrder(orderKey), until, next: first, left: BLOCK };
  }
}

/** Returns the job that removes ended status lists. A list of a million tokens takes 200 statements. */
export function statusListsJob({ pool, clock }: { readonly pool: Pool; readonly clock: Clock }): UpkeepJob {
  return {
    name: "status lists",
    everyMs: FORGET_MS,
    run: async () => {
      const before = new Date(clock.now() - LIST_ENDS_MS);
      while ((await forgetStatusLists(pool, before, FORGOTTEN_AT_ONCE)) > 0);
    },
  };
}
