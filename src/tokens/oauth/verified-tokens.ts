/**
 * Tokens that were checked a moment ago: the signature costs 0.1 ms of CPU, and a client sends the same token for
 * 15 minutes. An entry is good only while the key that checked it is published, so that a withdrawn key ends its
 * tokens too. Revocation goes by claims and is no business of this store.
 */
import { hash } from "node:crypto";
import { putBounded } from "../../domain/bounded-map.ts";

const ENTRIES_MAX = 10_000;

/** What a check found. */
export interface VerifiedToken<Claims> {
  readonly claims: Claims;
  /** The key that checked it. */
  readonly kid: string;
  /** Unix milliseconds after which the token is expired. */
  readonly expiresAt: number;
}

export interface VerifiedTokens<Claims> {
  /** What is known of a token, unless it has expired; `nowMs` is Unix milliseconds. */
  get(token: string, nowMs: number): VerifiedToken<Claims> | undefined;
  set(token: string, verified: VerifiedToken<Claims>): void;
}

/**
 * An empty store of at most 10,000 tokens, by digest: a heap dump must not hold tokens. The one that was checked first goes
 * first: to put each behind all others at its use cost a fifth of a request at the edge once there were 10,000.
 */
export function createVerifiedTokens<Claims>(): VerifiedTokens<Claims> {
  const entries = new Map<string, VerifiedToken<Claims>>();
  const digest = (token: string): string => hash("sha256", token, "hex");
  return {
    get: (token, nowMs) => {
      const key = digest(token);
      const entry = entries.get(key);
      if (entry === undefined) {
        return undefined;
      }
      if (nowMs >= entry.expiresAt) {
        entries.delete(key);
        return undefined;
      }
      return entry;
    },
    set: (token, verified) => {
      putBounded(entries, digest(token), verified, ENTRIES_MAX);
    },
  };
}
