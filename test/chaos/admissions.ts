/** Asks verifiers with tokens all the time, and tells when each admitted one. */
import { Agent, request } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { monotonicMs } from "../bench/load/monotonic.ts";

const LIVE_EVERY_MS = 20;
const REVOKED_EVERY_MS = 50;
const TIMEOUT_MS = 5_000;

/** Something that admits tokens: an api or an edge. */
export interface Verifier {
  readonly name: string;
  /** A path that asks for a token and nothing else. */
  readonly url: string;
}

/** An answer. Instants are milliseconds of the common clock. */
export interface Verdict {
  readonly sentMs: number;
  readonly answeredMs: number;
  /** HTTP status; 0 without an answer. */
  readonly status: number;
  /** When the token was admitted: as an edge says, otherwise not before the request was sent. */
  readonly admittedMs: number | undefined;
}

async function ask(url: string, token: string, agent: Agent): Promise<Verdict> {
  const sentMs = monotonicMs();
  return await new Promise((resolve) => {
    const settle = (status: number, stamp?: unknown): void => {
      const admittedMs = typeof stamp === "string" ? Number(BigInt(stamp)) / 1e6 : sentMs;
      const answeredMs = monotonicMs();
      resolve({ sentMs, answeredMs, status, admittedMs: status === 200 ? admittedMs : undefined });
    };
    const going = request(url, {
      agent,
      timeout: TIMEOUT_MS,
      headers: { authorization: `Bearer ${token}` },
    });
    going.once("timeout", () => going.destroy());
    going.once("error", () => settle(0));
    going.once("response", (response) => {
      response.resume();
      response.once("error", () => settle(0));
      response.once("end", () =>
        settle(response.statusCode ?? 0, response.headers["x-signet-test-admitted-at"]),
      );
    });
    going.end();
  });
}

/** Requests with one token to one verifier, one after the other. */
export class Admissions {
  readonly verdicts: Verdict[] = [];
  readonly #agent = new Agent({ keepAlive: true });
  readonly #loop: Promise<void>;
  #stopped = false;

  constructor({ url }: Verifier, token: string, everyMs: number) {
    this.#loop = this.#run(url, token, everyMs);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#loop;
    this.#agent.destroy();
  }

  async #run(url: string, token: string, everyMs: number): Promise<void> {
    while (!this.#stopped) {
      this.verdicts.push(await ask(url, token, this.#agent));
      await delay(everyMs);
    }
  }
}

/** Asks with a token that stays valid. */
export function askLive(verifier: Verifier, token: string): Admissions {
  return new Admissions(verifier, token, LIVE_EVERY_MS);
}

/** Asks with a token that is revoked meanwhile. */
export function askRevoked(verifier: Verifier, token: string): Admissions {
  return new Admissions(verifier, token, REVOKED_EVERY_MS);
}

/**
 * Returns the seconds from an instant to the first of the answers 200 that last until the end; 0 if they began before it,
 * infinity if the last answer is another.
 */
export function secondsToLasting(verdicts: readonly Verdict[], fromMs: number): number {
  const last = verdicts.findLastIndex(({ status }) => status !== 200);
  const first = verdicts[last + 1];
  return first === undefined ? Number.POSITIVE_INFINITY : Math.max(0, first.answeredMs - fromMs) / 1_000;
}

/** Returns the seconds from an instant to the first answer that is not 200; undefined if there is none. */
export function secondsToRefusal(verdicts: readonly Verdict[], fromMs: number): number | undefined {
  const first = verdicts.find(({ status, answeredMs }) => status !== 200 && answeredMs >= fromMs);
  return first === undefined ? undefined : (first.answeredMs - fromMs) / 1_000;
}

/** Returns the longest time without an answer 200 after an instant, from a refusal on, in seconds. */
export function longestRefusal(verdicts: readonly Verdict[], fromMs: number): number {
  let [longestMs, sinceMs] = [0, Number.POSITIVE_INFINITY];
  for (const { status, answeredMs } of verdicts) {
    if (answeredMs >= fromMs) {
      sinceMs =
        status === 200 && sinceMs === Number.POSITIVE_INFINITY ? sinceMs : Math.min(sinceMs, answeredMs);
      longestMs = Math.max(longestMs, answeredMs - sinceMs);
      sinceMs = status === 200 ? Number.POSITIVE_INFINITY : sinceMs;
    }
  }
  return longestMs / 1_000;
}

/** Returns the number of admissions more than 250 ms after the answer of the revocation. */
export function admittedLate(verdicts: readonly Verdict[], revokedMs: number, boundMs = 250): number {
  return verdicts.filter(({ admittedMs }) => admittedMs !== undefined && admittedMs > revokedMs + boundMs)
    .length;
}
