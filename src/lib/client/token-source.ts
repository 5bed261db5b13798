/** Access tokens for one set of scopes: requested once for all callers, and renewed before they expire. */
import type { CredentialKeeper } from "./credential-keeper.ts";
import { SignetApiError } from "./errors.ts";
import { isRepeatable, type RetryPolicy, withRetries } from "./retry.ts";
import type { Runtime } from "./runtime.ts";
import type { ClientSecret } from "./succession.ts";
import { requestToken, type TokenAnswer } from "./token-request.ts";

/** The renewal starts at a random point between these parts of a token's life, so that clients spread out. */
const REFRESH_FROM = 0.7;
const REFRESH_SPREAD = 0.15;
/** A token this close to its expiry is not returned: it could expire in transit. */
const END_MARGIN_MS = 30_000;
const END_MARGIN_PART = 0.1;
/** Minimum pause after a failed renewal; the current token is valid meanwhile. */
const REFRESH_AGAIN_MS = 10_000;
/** Pause after a rejected credential, since the service counts failures. Doubles up to the maximum. */
const REFUSAL_HOLD_MS = 5_000;
const REFUSAL_HOLD_MAX_MS = 300_000;

export interface AccessToken {
  readonly value: string;
  /** Granted scopes, separated by spaces. */
  readonly scope: string;
  /** Unix milliseconds by this machine's clock. */
  readonly expiresAt: number;
}

export interface TokenSourceOptions {
  readonly runtime: Runtime;
  readonly keeper: CredentialKeeper;
  readonly url: string;
  /** Creates the assertion that replaces a secret. */
  readonly assert?: (() => string | Promise<string>) | undefined;
  /** Empty: all scopes of the principal. */
  readonly scopes: readonly string[];
  readonly retry: RetryPolicy;
  readonly timeoutMs: number;
}

interface Held {
  readonly token: AccessToken;
  readonly usableUntil: number;
  refreshAt: number;
}

/** An answer and the send time of its request, in Unix milliseconds. */
interface Asked {
  readonly askedAt: number;
  readonly answer: TokenAnswer;
}

interface Refusal {
  readonly error: SignetApiError;
  readonly holdMs: number;
  readonly until: number;
}

function isInvalidClient(error: unknown): error is SignetApiError {
  return error instanceof SignetApiError && error.code === "INVALID_CLIENT";
}

/** Expiry counts from before the request, so that transit time is included. */
function hold(answer: TokenAnswer, askedAt: number, random: number): Held {
  const { accessToken, scope, lifetimeMs } = answer;
  const margin = Math.min(END_MARGIN_MS, lifetimeMs * END_MARGIN_PART);
  return {
    token: { value: accessToken, scope, expiresAt: askedAt + lifetimeMs },
    usableUntil: askedAt + lifetimeMs - margin,
    refreshAt: askedAt + lifetimeMs * (REFRESH_FROM + REFRESH_SPREAD * random),
  };
}

export class TokenSource {
  readonly #options: TokenSourceOptions;
  #held: Held | undefined;
  #flight: Promise<AccessToken> | undefined;
  #refusal: Refusal | undefined;

  constructor(options: TokenSourceOptions) {
    this.#options = options;
  }

  /**
   * Returns a valid token. Only the first caller, and callers with an expired token, wait.
   *
   * @throws SignetApiError, SignetTransportError, CredentialStoreError
   */
  async token(): Promise<AccessToken> {
    const now = this.#options.runtime.clock.now();
    const held = this.#held;
    if (held === undefined || now >= held.usableUntil) {
      return await this.#renew();
    }
    if (now >= held.refreshAt && this.#flight === undefined) {
      held.refreshAt = now + REFRESH_AGAIN_MS;
      this.#renew().catch((error: unknown) => {
        this.#options.runtime.warn({
          code: "REFRESH_FAILED",
          message: "the token could not be renewed yet",
          cause: error,
        });
      });
    }
    return held.token;
  }

  /** Returns a token other than the rejected one; concurrent callers share the renewal. */
  async tokenInsteadOf(refused: string): Promise<AccessToken> {
    if (this.#held?.token.value === refused) {
      this.#held = undefined;
    }
    return await this.token();
  }

  async #renew(): Promise<AccessToken> {
    this.#flight ??= this.#fly().finally(() => {
      this.#flight = undefined;
    });
    return await this.#flight;
  }

  async #fly(): Promise<AccessToken> {
    const { keeper, runtime } = this.#options;
    this.#throwWhileRefused();
    let refusal: SignetApiError | undefined;
    for (const candidate of await keeper.candidates()) {
      try {
        const { answer, askedAt } = await this.#request(candidate);
        await keeper.accepted(candidate, answer.successor);
        this.#refusal = undefined;
        const held = hold(answer, askedAt, runtime.random());
        this.#held = held;
        return held.token;
      } catch (error) {
        if (!isInvalidClient(error)) {
          throw error;
        }
        keeper.rejected(candidate);
        refusal = error;
      }
    }
    throw this.#refused(refusal as SignetApiError);
  }

  async #request(secret: ClientSecret): Promise<Asked> {
    const { runtime, url, assert, scopes, retry, timeoutMs } = this.#options;
    const scope = scopes.length === 0 ? null : scopes.join(" ");
    const ask = async (): Promise<Asked> => {
      const askedAt = runtime.clock.now();
      // A new one each time: the service accepts an assertion once.
      const assertion = secret.secret === null && assert !== undefined ? await assert() : null;
      return { askedAt, answer: await requestToken(runtime, { url, secret, assertion, scope, timeoutMs }) };
    };
    return await withRetries(ask, { runtime, policy: retry, repeat: isRepeatable });
  }

  #throwWhileRefused(): void {
    if (this.#refusal !== undefined && this.#options.runtime.clock.now() < this.#refusal.until) {
      throw this.#refusal.error;
    }
  }

  #refused(error: SignetApiError): SignetApiError {
    const before = this.#refusal?.holdMs;
    const holdMs = before === undefined ? REFUSAL_HOLD_MS : Math.min(before * 2, REFUSAL_HOLD_MAX_MS);
    this.#refusal = { error, holdMs, until: this.#options.runtime.clock.now() + holdMs };
    return error;
  }
}
