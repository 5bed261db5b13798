/**
 * Access tokens for one receiver, by the OAuth 2.0 client credentials grant (RFC 6749, 4.4). Token requests go
 * through the sender, so the address policy applies to the token URL. Tokens are kept in memory only.
 */
import type { Clock } from "#domain/clock.ts";
import type { HttpSender, SendRequest } from "./http-sender.ts";

/** Client credentials and their token endpoint. */
export interface ClientCredentials {
  readonly token_url: string;
  readonly client_id: string;
  readonly client_secret: string;
  readonly scope?: string;
}

export interface AccessToken {
  readonly value: string;
  /** Whether this call waited for the token. A cached token may no longer be known to the receiver. */
  readonly fresh: boolean;
}

/** Why there is no token, in words for the tenant that reveal nothing about our network. */
export interface NoToken {
  readonly problem: string;
}

/** Leaves time to send within a ping's 5 s. */
const DEADLINE_MS = 4_000;
const ANSWER_BYTES = 16_384;
/** A token is replaced this long before it expires, or a tenth of its life before, if that is shorter. */
const EARLY_MS = 60_000;
/** Assumed life of a token without `expires_in` (RFC 6749, 5.1, leaves it open), and the maximum that is accepted. */
const UNKNOWN_LIFE_S = 300;
const MAX_LIFE_S = 86_400;
/** No token request is made for this long after a failure. */
const PAUSE_MS = 1_000;
/** RFC 6750, 2.1. */
const TOKEN_FORM = /^[A-Za-z0-9._~+/-]{1,8192}=*$/;

/** Encodes a credential as `application/x-www-form-urlencoded`, as RFC 6749, 2.3.1, requires. */
function encoded(text: string): string {
  return new URLSearchParams([["", text]]).toString().slice(1);
}

function tokenRequest({ token_url: url, client_id: id, client_secret: secret, scope }: ClientCredentials) {
  const form = new URLSearchParams({
    grant_type: "client_credentials",
    ...(scope === undefined ? {} : { scope }),
  });
  const credentials = Buffer.from(`${encoded(id)}:${encoded(secret)}`).toString("base64");
  return {
    url,
    headers: {
      Authorization: `Basic ${credentials}`,
      "Content-Type": "application/x-www-form-urlencoded",
      Accept: "application/json",
      "Accept-Encoding": "identity",
    },
    body: Buffer.from(form.toString()),
    deadlineMs: DEADLINE_MS,
    keptBodyBytes: ANSWER_BYTES,
    successStatus: (status: number) => status === 200,
  };
}

interface Kept {
  readonly value: string;
  readonly lifeMs: number;
}

function readAnswer(text: string | null): Kept | NoToken {
  let answer: Readonly<Record<string, unknown>>;
  try {
    answer = Object(JSON.parse(text ?? ""));
  } catch {
    return { problem: "the response of token_url is not JSON of at most 16 KiB" };
  }
  const { access_token: value, token_type: type = "bearer", expires_in: expiresIn } = answer;
  if (typeof value !== "string" || !TOKEN_FORM.test(value)) {
    return { problem: "the response of token_url has no access_token" };
  }
  if (typeof type !== "string" || type.toLowerCase() !== "bearer") {
    return { problem: "the response of token_url has no bearer token" };
  }
  const given = typeof expiresIn === "number" && expiresIn >= 0 ? expiresIn : UNKNOWN_LIFE_S;
  return { value, lifeMs: Math.min(given, MAX_LIFE_S) * 1_000 };
}

interface AccessTokenServices {
  readonly http: Pick<HttpSender, "send">;
  readonly clock: Clock;
}

/** Access tokens of one receiver. */
export class AccessTokens {
  readonly #request: SendRequest;
  readonly #services: AccessTokenServices;
  #kept: { readonly value: string; readonly until: number } | null = null;
  #failed: { readonly problem: string; readonly until: number } | null = null;
  #asking: Promise<AccessToken | NoToken> | null = null;

  constructor(credentials: ClientCredentials, services: AccessTokenServices) {
    this.#request = tokenRequest(credentials);
    this.#services = services;
  }

  /** Returns the cached token or requests a new one. Concurrent calls share a request. */
  async get(): Promise<AccessToken | NoToken> {
    const now = this.#services.clock.now();
    if (this.#kept !== null && now < this.#kept.until) {
      return { value: this.#kept.value, fresh: false };
    }
    if (this.#failed !== null && now < this.#failed.until) {
      return { problem: this.#failed.problem };
    }
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = null;
    });
    return await this.#asking;
  }

  /** Drops a token that the receiver rejected. */
  forget(value: string): void {
    if (this.#kept?.value === value) {
      this.#kept = null;
    }
  }

  async #ask(): Promise<AccessToken | NoToken> {
    const result = await this.#services.http.send(this.#request);
    const answer =
      result.error === null
        ? readAnswer(result.responseBody)
        : { problem: `token_url: ${result.status === null ? result.error : `status ${result.status}`}` };
    if ("problem" in answer) {
      this.#failed = { problem: answer.problem, until: this.#services.clock.now() + PAUSE_MS };
      return answer;
    }
    const early = Math.min(EARLY_MS, answer.lifeMs / 10);
    // Count from before the request, so that its duration shortens the token's life.
    this.#kept = { value: answer.value, until: result.startedAt + answer.lifeMs - early };
    return { value: answer.value, fresh: true };
  }
}
