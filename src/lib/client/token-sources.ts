/** Creates token sources from options: one credential, any number of scope sets. */
import type { ClientAssertion } from "./client-assertion.ts";
import { CredentialKeeper } from "./credential-keeper.ts";
import type { CredentialStore } from "./credential-store.ts";
import { DEFAULT_RETRY, type RetryPolicy } from "./retry.ts";
import { type Runtime, runtimeWith } from "./runtime.ts";
import { createTlsFetch, type TlsSource } from "./tls-fetch.ts";
import { TokenSource } from "./token-source.ts";

const TIMEOUT_MS = 30_000;
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/** Address and credential for the service. */
export interface ConnectionOptions extends Partial<Runtime> {
  /** For instance `https://api.example.com`. */
  readonly baseUrl: string;
  /** Absent where the store holds it. */
  readonly clientId?: string;
  /** Absent if the store holds it, or the client certificate or an assertion authenticates. */
  readonly clientSecret?: string;
  /** private_key_jwt, see `privateKeyAssertion`; or a function that returns the platform's assertion. */
  readonly clientAssertion?: ClientAssertion;
  /** Stores a rotated secret. Without it, a successor is never used, and the secret ends with its overlap. */
  readonly store?: CredentialStore;
  /** The client certificate of mutual TLS. */
  readonly tls?: TlsSource;
  readonly retry?: Partial<RetryPolicy>;
  /** Timeout of one request, in milliseconds; 30,000. */
  readonly timeoutMs?: number;
  /** Allows unencrypted secrets and tokens to other machines: for networks with their own encryption. */
  readonly allowPlainHttp?: boolean;
}

/** A validated connection. */
export interface Connection {
  readonly baseUrl: string;
  readonly runtime: Runtime;
  readonly retry: RetryPolicy;
  readonly timeoutMs: number;
  /** Returns the source for a set of scopes; empty: all of the principal's. All share one credential. */
  readonly sourceFor: (scopes: readonly string[]) => TokenSource;
}

function readBaseUrl({ baseUrl, allowPlainHttp = false }: ConnectionOptions): string {
  const url = new URL(baseUrl);
  if (url.protocol !== "https:" && url.protocol !== "http:") {
    throw new TypeError("baseUrl must be an https address");
  }
  if (url.protocol === "http:" && !allowPlainHttp && !LOOPBACK.test(url.hostname)) {
    throw new TypeError(
      `a secret does not travel to ${url.host} over plain http: use https, or allowPlainHttp`,
    );
  }
  if (url.username !== "" || url.search !== "" || url.hash !== "") {
    throw new TypeError("baseUrl holds a scheme, a host and perhaps a path, nothing else");
  }
  return url.origin + url.pathname.replace(/\/+$/, "");
}

/** @throws TypeError for contradictory options */
export function connect(options: ConnectionOptions): Connection {
  const baseUrl = readBaseUrl(options);
  const { clientId, clientSecret, clientAssertion, store, tls, timeoutMs = TIMEOUT_MS } = options;
  if (clientId === undefined && store === undefined) {
    throw new TypeError("clientId or a store that holds the credential is needed");
  }
  const base = runtimeWith(options);
  const fetch = options.fetch ?? (tls === undefined ? base.fetch : createTlsFetch(tls, base.clock));
  const runtime = { ...base, fetch };
  const retry = { ...DEFAULT_RETRY, ...options.retry };
  const configured = clientId === undefined ? undefined : { clientId, secret: clientSecret ?? null };
  const keeper = new CredentialKeeper({ configured, store, warn: runtime.warn });
  const url = `${baseUrl}/v1/auth/token`;
  const assert = clientAssertion === undefined ? undefined : () => clientAssertion(url);
  return {
    baseUrl,
    runtime,
    retry,
    timeoutMs,
    sourceFor: (scopes) => new TokenSource({ runtime, keeper, url, assert, scopes, retry, timeoutMs }),
  };
}
