/** How many tokens each tenant was issued, and which: not an entry for each token, one for each hour (security decisions E). */
import { createHash, type Hash } from "node:crypto";
import type { Clock } from "../../domain/clock.ts";
import type { Logger } from "../../observability/logger.ts";

/** From the start of the process on, and not of the clock: many processes do not all write at once. */
const ENTRY_EVERY_MS = 3_600_000;
/** What could not be written is tried again this often. */
const RETRY_EVERY_MS = 60_000;
/** In a transaction: the log's head is locked from its first entry on. */
const TENANTS_AT_ONCE = 100;

/** The tokens that one process issued for one tenant within an hour. */
export interface IssuedCount {
  readonly tenantId: string;
  readonly count: number;
  /** SHA-256 over their `jti`, each with a line end, in the order in which they were issued; hexadecimal. */
  readonly digest: string;
  /** When the first and the last of them were issued, Unix milliseconds. */
  readonly firstMs: number;
  readonly lastMs: number;
}

export interface IssuedTokens {
  /** Counts a token that is given out; memory only. */
  note(tenantId: string, jti: string): void;
}

export interface IssuedTokensOptions {
  /** Writes them, all or none. */
  readonly append: (counts: readonly IssuedCount[]) => Promise<void>;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Running {
  readonly hash: Hash;
  readonly firstMs: number;
  lastMs: number;
  count: number;
}

/**
 * Makes the count. A process that is killed loses what it has counted since its last entries, an hour's at most.
 *
 * @returns beside the count, `write` (tests) and `close`, which writes what is left
 */
export function createIssuedTokens({ append, clock, log }: IssuedTokensOptions) {
  const running = new Map<string, Running>();
  let unwritten: readonly IssuedCount[] = [];
  let writing: Promise<void> = Promise.resolve();

  function endPeriod(): void {
    const ended = [...running].map(([tenantId, { hash, ...counted }]) => ({
      tenantId,
      digest: hash.digest("hex"),
      ...counted,
    }));
    running.clear();
    unwritten = [...unwritten, ...ended];
  }

  async function appendUnwritten(): Promise<void> {
    try {
      while (unwritten.length > 0) {
        const counts = unwritten.slice(0, TENANTS_AT_ONCE);
        await append(counts);
        unwritten = unwritten.slice(counts.length);
      }
    } catch (error) {
      log.warn(
        { err: error, tenants: unwritten.length },
        "issued tokens could not be entered into the compliance log yet",
      );
    }
  }

  /** One after the other: two at once would enter the same twice. */
  async function writeUnwritten(): Promise<void> {
    writing = writing.then(appendUnwritten);
    await writing;
  }

  async function write(): Promise<void> {
    endPeriod();
    await writeUnwritten();
  }

  const timers = [
    setInterval(() => void write(), ENTRY_EVERY_MS).unref(),
    setInterval(() => void writeUnwritten(), RETRY_EVERY_MS).unref(),
  ];
  return {
    note: (tenantId: string, jti: string): void => {
      const nowMs = clock.now();
      let tenant = running.get(tenantId);
      if (tenant === undefined) {
        tenant = { hash: createHash("sha256"), firstMs: nowMs, lastMs: nowMs, count: 0 };
        running.set(tenantId, tenant);
      }
      tenant.hash.update(`${jti}\n`);
      tenant.count += 1;
      tenant.lastMs = nowMs;
    },
    write,
    close: async (): Promise<void> => {
      timers.forEach((timer) => clearInterval(timer));
      await write();
    },
  };
}
