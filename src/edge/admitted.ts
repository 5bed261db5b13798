/**
 * What was let in and is not over: a download, an answer that is being made. Its token was looked at once; a revocation
 * ends it all the same (security decisions D: 250 ms).
 */
import { tokenRefused } from "../http/bearer-errors.ts";
import type { RevocableToken } from "../revocation/deny-list.ts";

/** Milliseconds between two looks, into memory, which hears of a revocation within some milliseconds itself. */
const LOOK_EVERY_MS = 50;

/** A request that can be ended from outside. */
interface UnderWay {
  /** Ends it; the cause of `reason` is what its caller gets to read, if it can still be told. */
  breakOff(reason: Error): void;
}

/**
 * Places in two arrays, taken and given back: a Map that every request goes into and out of made its requests outlive
 * three times as many garbage collections, which cost the edge a third of its throughput.
 */
export class Admitted {
  readonly #isRevoked: (token: RevocableToken) => boolean;
  readonly #requests: (UnderWay | undefined)[] = [];
  readonly #tokens: (RevocableToken | undefined)[] = [];
  readonly #free: number[] = [];
  readonly #timer: NodeJS.Timeout;

  /** @param isRevoked whether it is known that the token is revoked; what nobody can say yet ends nothing */
  constructor(isRevoked: (token: RevocableToken) => boolean) {
    this.#isRevoked = isRevoked;
    this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS).unref();
  }

  /** The place of the request, until it is over. */
  add(request: UnderWay, token: RevocableToken): number {
    const place = this.#free.pop() ?? this.#requests.length;
    this.#requests[place] = request;
    this.#tokens[place] = token;
    return place;
  }

  /** It is over; its place is another's from now on. */
  remove(place: number): void {
    this.#requests[place] = undefined;
    this.#tokens[place] = undefined;
    this.#free.push(place);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    for (const [place, request] of this.#requests.entries()) {
      const token = this.#tokens[place];
      if (request !== undefined && token !== undefined && this.#isRevoked(token)) {
        // Once; the place is its own until it is over.
        this.#requests[place] = undefined;
        request.breakOff(
          new Error("revoked under way", {
            cause: tokenRefused("TOKEN_REVOKED", "The access token was revoked."),
          }),
        );
      }
    }
  }
}
