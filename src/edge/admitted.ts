/**
 * Running requests, such as downloads. Their tokens were checked once at admission, but a revocation still ends them
 * (security decisions D: 250 ms).
 */
import { tokenRefused } from "#http/bearer-errors.ts";
import type { RevocableToken } from "#revocation/deny-list.ts";
import type { Timer, Timers } from "#domain/clock.ts";

/** Interval of the checks, in milliseconds. They read memory, where a revocation arrives within some milliseconds. */
const CHECK_EVERY_MS = 50;

/** A running request that can be aborted. */
interface UnderWay {
  /** Aborts the request. If no response has been sent, the caller gets the cause of `reason`. */
  breakOff(reason: Error): void;
}

/**
 * The requests in two arrays with reused slots. With a Map, requests survived three times as many garbage collections,
 * which cost the edge a third of its throughput.
 */
export class Admitted {
  readonly #timers: Timers;
  readonly #isRevoked: (token: RevocableToken) => boolean;
  readonly #requests: (UnderWay | undefined)[] = [];
  readonly #tokens: (RevocableToken | undefined)[] = [];
  readonly #free: number[] = [];
  /** Runs while there are requests: it would wake an idle process. */
  #timer: Timer | undefined;

  /** @param isRevoked returns true only if the token is known to be revoked; an unknown state aborts nothing */
  constructor(isRevoked: (token: RevocableToken) => boolean, timers: Timers) {
    this.#timers = timers;
    this.#isRevoked = isRevoked;
  }

  /** Adds a request and returns its slot. */
  add(request: UnderWay, token: RevocableToken): number {
    const place = this.#free.pop() ?? this.#requests.length;
    this.#requests[place] = request;
    this.#tokens[place] = token;
    this.#timer ??= this.#timers.every(CHECK_EVERY_MS, () => this.#check()).unref();
    return place;
  }

  /** Frees the slot of a request that has ended. */
  remove(place: number): void {
    this.#requests[place] = undefined;
    this.#tokens[place] = undefined;
    this.#free.push(place);
  }

  close(): void {
    this.#timers.cancel(this.#timer);
    this.#timer = undefined;
  }

  #check(): void {
    if (this.#free.length === this.#requests.length) {
      this.close();
      return;
    }
    for (const [place, request] of this.#requests.entries()) {
      const token = this.#tokens[place];
      if (request !== undefined && token !== undefined && this.#isRevoked(token)) {
        // Abort only once; the slot stays reserved until the request has ended.
        this.#requests[place] = undefined;
        request.breakOff(
          new Error("token revoked during the request", {
            cause: tokenRefused("TOKEN_REVOKED", "The access token was revoked."),
          }),
        );
      }
    }
  }
}
