/** Tokens by scope, from one credential, and what goes wrong with them in terms of HTTP. */
import { SignetApiError } from "../../lib/client/errors.ts";
import type { AccessToken, TokenSource } from "../../lib/client/token-source.ts";
import type { Connection } from "../../lib/client/token-sources.ts";
import { putBounded } from "../../domain/bounded-map.ts";
import type { Refusal } from "./request-guard.ts";

/** Sets of scopes whose tokens are kept; beyond that the one that was asked for longest ago makes way. */
const SOURCES_MAX = 32;
const SCOPES_MAX = 64;
/** RFC 6749 section 3.3. */
const SCOPE_TOKEN = /^[\x21\x23-\x5b\x5d-\x7e]{1,128}$/;

/** The scopes of a query, in an order of their own; undefined when they are none. */
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

  /** @param refused a token that a resource has refused, to be replaced */
  async token(scopes: readonly string[], refused?: string): Promise<AccessToken> {
    const source = this.#source(scopes);
    return await (refused === undefined ? source.token() : source.tokenInsteadOf(refused));
  }

  /** Seconds that a token still lasts. */
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

/** A wrong scope is the caller's fault; a refused credential and a service that is away are not. */
export function tokenRefusal(error: unknown): Refusal {
  if (!(error instanceof SignetApiError)) {
    return { status: 503, code: "UNAVAILABLE", detail: "the service cannot be reached" };
  }
  const status = error.status === 400 ? 400 : error.status === 429 || error.status >= 500 ? 503 : 502;
  return { status, code: error.code, detail: error.message };
}
