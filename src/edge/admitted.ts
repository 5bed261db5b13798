/**
 * What was let in and is not over: a download, an answer that is being made. Its token was looked at once; a revocation
 * ends it all the same (security decisions D: 250 ms).
 */
import { tokenRefused } from "../oauth/bearer-errors.ts";
import type { RevocableToken } from "../revocation/deny-list.ts";

/** Milliseconds between two looks, into memory, which hears of a revocation within some milliseconds itself. */
const LOOK_EVERY_MS = 50;

/** A request that can be ended from outside. */
interface UnderWay {
  /** Ends it; the cause of `reason` is what its caller gets to read, if it can still be told. */
  breakOff(reason: Error): void;
}

export class Admitted {
  readonly #isRevoked: (token: RevocableToken) => boolean;
  readonly #underWay = new Map<UnderWay, RevocableToken>();
  readonly #timer: NodeJS.Timeout;

  /** @param isRevoked whether it is known that the token is revoked; what nobody can say yet ends nothing */
  constructor(isRevoked: (token: RevocableToken) => boolean) {
    this.#isRevoked = isRevoked;
    this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS).unref();
  }

  add(request: UnderWay, token: RevocableToken): void {
    this.#underWay.set(request, token);
  }

  /** It is over. */
  remove(request: UnderWay): void {
    this.#underWay.delete(request);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    for (const [request, token] of this.#underWay) {
      if (this.#isRevoked(token)) {
        this.#underWay.delete(request);
        request.breakOff(
          new Error("revoked under way", {
            cause: tokenRefused("TOKEN_REVOKED", "The access token was revoked."),
          }),
        );
      }
    }
  }
}
