/** Resolves host names for the sender. */
import { Resolver, lookup } from "node:dns/promises";
import type { Timer, Timers } from "#domain/clock.ts";

/** Returns every address of a host name; an empty list if there is none. Rejects if that is not known. */
export type HostResolver = (hostname: string) => Promise<readonly string[]>;

/**
 * First wait for a name server, in milliseconds, and number of tries. Each try waits twice as long as the one before. After
 * fast answers, the library waits five times their average instead, at least 250 ms.
 */
const FIRST_WAIT_MS = 500;
const TRIES = 4;
/** Deadline of a look-up, in milliseconds. An attempt has ten seconds. */
const DEADLINE_MS = 4_000;
/** Wait for the other family's answer once one has addresses, in milliseconds (RFC 8305 section 3 waits 50). */
const OTHER_FAMILY_MS = 250;
/** The name servers say that there is no such name, or no such address. */
const NONE = new Set(["ENOTFOUND", "ENODATA"]);

function isNone(error: unknown): boolean {
  return NONE.has(String((error as NodeJS.ErrnoException).code));
}

async function systemLookup(hostname: string): Promise<readonly string[]> {
  try {
    const found = await lookup(hostname, { all: true });
    return found.map(({ address }) => address);
  } catch (error) {
    if (isNone(error)) {
      return [];
    }
    throw error;
  }
}

interface Answers {
  /** Addresses by family, as far as they are known. */
  readonly found: readonly string[];
  /** Why something is not known; undefined if everything is. */
  readonly failure: unknown;
}

/** Asks for both families. Resolves with what is known in time. */
async function ask(resolver: Resolver, hostname: string, timers: Timers): Promise<Answers> {
  const found: [string[], string[]] = [[], []];
  let failure: unknown = new Error(`no name server answered within ${DEADLINE_MS} ms`);
  const planned: Timer[] = [];
  const after = async (ms: number): Promise<void> =>
    await new Promise((resolve) => {
      planned.push(timers.after(ms, resolve).unref());
    });
  const queries = [resolver.resolve4(hostname), resolver.resolve6(hostname)].map(async (query, family) => {
    found[family] = await query;
  });
  const all = Promise.allSettled(queries).then((results) => {
    const errors = results.flatMap((result) =>
      result.status === "rejected" ? [result.reason as unknown] : [],
    );
    failure = errors.find((error) => !isNone(error));
  });
  const one = Promise.any(queries).then(
    async () => await after(OTHER_FAMILY_MS),
    async () => await all,
  );
  await Promise.race([all, one, after(DEADLINE_MS)]);
  planned.forEach(timers.cancel);
  return { found: found.flat(), failure };
}

/**
 * Creates a resolver that queries the name servers directly. The system's `getaddrinfo` would block one of libuv's
 * four threads while a name server hangs. Cryptography needs the same threads.
 *
 * `localhost` goes to the system, because name servers do not know it.
 *
 * @param options.hostsFile whether to use the hosts file for names that DNS does not know; for development only
 * @param options.servers name servers as `address:port`; by default those of the system
 */
export function createHostResolver(options: {
  readonly timers: Timers;
  readonly hostsFile?: boolean;
  readonly servers?: readonly string[];
}): HostResolver {
  const resolver = new Resolver({ timeout: FIRST_WAIT_MS, tries: TRIES });
  if (options.servers !== undefined) {
    resolver.setServers(options.servers);
  }
  return async (hostname) => {
    if (hostname === "localhost") {
      return await systemLookup(hostname);
    }
    const { found, failure } = await ask(resolver, hostname, options.timers);
    if (found.length === 0 && options.hostsFile === true) {
      return await systemLookup(hostname);
    }
    if (found.length === 0 && failure !== undefined) {
      throw failure;
    }
    return found;
  };
}
