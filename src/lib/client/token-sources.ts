/** Creates token sources from options: one credential, any number of scope sets. */
import { checkFunctions, readText } from "../options.ts";
import type { ClientAssertion } from "./client-assertion.ts";
import { CredentialKeeper } from "./credential-keeper.ts";
import type { CredentialStore } from "./credential-store.ts";
import { DEFAULT_RETRY, type RetryPolicy } from "./retry.ts";
import { type Runtime, runtimeWith } from "./runtime.ts";
import type { ClientSecret } from "./succession.ts";
import { createTlsFetch, type TlsSource } from "./tls-fetch.ts";
import { TokenSource } from "./token-source.ts";

const TIMEOUT_MS = 30_000;
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/** Address and credential for the service. */
export interface ConnectionOptions extends Partial<Runtime> {
  /** For instance `https://api.example.com`. */
  readonly baseUrl: string;
  /** Base URLs of other regions' APIs. An answer 421 leads to these and `baseUrl` only: token and body go along. */
  readonly regionUrls?: readonly string[];
  /** Absent where the store holds it. White space around it and the secret is ignored. */
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
  /** All addresses that may get a token, `baseUrl` among them. */
  readonly addresses: ReadonlySet<string>;
  readonly runtime: Runtime;
  readonly retry: RetryPolicy;
  readonly timeoutMs: number;
  /** Returns the source for a set of scopes; empty: all of the principal's. All share one credential. */
  readonly sourceFor: (scopes: readonly string[]) => TokenSource;
}

/** Returns the form of a base URL in which two are compared: without slashes at its end. */
export function normalBaseUrl(address: string): string {
  const url = new URL(address);
  if (url.protocol !== "https:" && url.protocol !== "http:") {
    throw new TypeError("a base URL must be an https address");
  }
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    throw new TypeError("a base URL holds a scheme, a host and perhaps a path, nothing else");
  }
  return url.origin + url.pathname.replace(/\/+$/, "");
}

function readBaseUrl(address: string, { allowPlainHttp = false }: ConnectionOptions): string {
  const url = new URL(address);
  if (url.protocol === "http:" && !allowPlainHttp && !LOOPBACK.test(url.hostname)) {
    throw new TypeError(
      `a secret does not travel to ${url.host} over plain http: use https, or allowPlainHttp`,
    );
  }
  return normalBaseUrl(address);
}

/** Returns the configured credential, if any. @throws TypeError that names the option */
function configuredCredential(options: ConnectionOptions): ClientSecret | undefined {
  const { clientId, clientSecret, store } = options;
  const given = options as unknown as Readonly<Record<string, unknown>>;
  checkFunctions(given, [], ["clientAssertion"]);
  if (store !== undefined) {
    checkFunctions(store as unknown as Readonly<Record<string, unknown>>, ["load", "save"], [], "store.");
  }
  if (clientId === undefined && store === undefined) {
    throw new TypeError("clientId or a store that holds the credential is needed");
  }
  if (clientId === undefined) {
    return undefined;
  }
  const secret = clientSecret === undefined ? null : readText(given, "clientSecret");
  return { clientId: readText(given, "clientId"), secret };
}

/** @throws TypeError for missing, wrong or contradictory options */
export function connect(options: ConnectionOptions): Connection {
  const baseUrl = readBaseUrl(options.baseUrl, options);
  const regions = (options.regionUrls ?? []).map((address) => readBaseUrl(address, options));
  const { clientAssertion, store, tls, timeoutMs = TIMEOUT_MS } = options;
  const configured = configuredCredential(options);
  const base = runtimeWith(options);
  const fetch = options.fetch ?? (tls === undefined ? base.fetch : createTlsFetch(tls, base.clock));
  const runtime = { ...base, fetch };
  const retry = { ...DEFAULT_RETRY, ...options.retry };
  const keeper = new CredentialKeeper({ configured, store, warn: runtime.warn });
  const url = `${baseUrl}/v1/auth/token`;
  const assert = clientAssertion === undefined ? undefined : () => clientAssertion(url);
  return {
    baseUrl,
    addresses: new Set([baseUrl, ...regions]),
    runtime,
    retry,
    timeoutMs,
    sourceFor: (scopes) => new TokenSource({ runtime, keeper, url, assert, scopes, retry, timeoutMs }),
  };
}
