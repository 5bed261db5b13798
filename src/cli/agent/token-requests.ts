/** Gets tokens by scope from one credential, and maps failures to HTTP answers. */
import { SignetApiError } from "#lib/client/errors.ts";
import type { AccessToken, TokenSource } from "#lib/client/token-source.ts";
import type { Connection } from "#lib/client/token-sources.ts";
import { putBounded } from "#domain/bounded-map.ts";
import type { Refusal } from "./request-guard.ts";

/** Number of scope sets whose tokens are cached; the least recently used one is evicted first. */
const SOURCES_MAX = 32;
const SCOPES_MAX = 64;
/** RFC 6749 section 3.3. */
const SCOPE_TOKEN = /^[\x21\x23-\x5b\x5d-\x7e]{1,128}$/;

/** Returns the scopes of a query, sorted and without duplicates; undefined if they are invalid. */
export function readScopes(text: string | null): readonly string[] | undefined {
  const scopes = [...new Set((text ?? "").split(" ").filter((scope) => scope !== ""))].toSorted();
  return scopes.length <= SCOPES_MAX && scopes.every((scope) => SCOPE_TOKEN.test(scope)) ? scopes : undefined;
}

export class TokenRequests {
  readonly #connection: Connection;
  readonly #sources = new Map<string, TokenSource>();

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** @param refused token that a resource server rejected and that must be replaced */
  async token(scopes: readonly string[], refused?: string): Promise<AccessToken> {
    const source = this.#source(scopes);
    return await (refused === undefined ? source.token() : source.tokenInsteadOf(refused));
  }

  /** Returns the remaining lifetime of a token, in seconds. */
  secondsLeft({ expiresAt }: AccessToken): number {
    return Math.max(0, Math.floor((expiresAt - this.#connection.runtime.clock.now()) / 1_000));
  }

  #source(scopes: readonly string[]): TokenSource {
    const key = scopes.join(" ");
    const source = this.#sources.get(key) ?? this.#connection.sourceFor(scopes);
    putBounded(this.#sources, key, source, SOURCES_MAX);
    return source;
  }
}

/** Maps an error to an answer: 400 for an invalid scope, 502 for a refused credential, 503 if the service is down. */
export function tokenRefusal(error: unknown): Refusal {
  if (!(error instanceof SignetApiError)) {
    return { status: 503, code: "UNAVAILABLE", detail: "the service cannot be reached" };
  }
  const status = error.status === 400 ? 400 : error.status === 429 || error.status >= 500 ? 503 : 502;
  return { status, code: error.code, detail: error.message };
}
