/**
 * Sends to endpoints with custom headers or authentication. Settings are decrypted once per version and worker. A new
 * version replaces the old one.
 */
import type { StoredRequestSettings } from "#database/repositories/endpoints/endpoint-authentications.ts";
import type { EndpointTarget } from "#database/repositories/stored-secrets.ts";
import { putBounded } from "#domain/bounded-map.ts";
import type { Clock, Timers } from "#domain/clock.ts";
import { type Authentication, authenticationAad } from "./authentication.ts";
import { AccessTokens } from "./access-tokens.ts";
import { NoAnswerError, within } from "#runtime/within.ts";
import type { ClientIdentity, HttpSender, SendRequest, SendResult } from "./http-sender.ts";

/** Endpoint of a request. A newer cached version than the one that was loaded is preferred. */
export type ReceiverEndpoint = Pick<
  EndpointTarget,
  "endpoint_id" | "tenant_id" | "data_key" | "request_version"
>;

export interface ReceiverAccessOptions {
  readonly http: HttpSender;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly load: (tenantId: string, id: string) => Promise<StoredRequestSettings | undefined>;
  /** Decrypts an envelope of the tenant. */
  readonly open: (endpoint: ReceiverEndpoint, aad: string, sealed: string) => Promise<string>;
}

const REMEMBERED_MAX = 1_000;
const UNAUTHORIZED = 401;
/** Minimum time left of an attempt for a second request, in milliseconds. */
const RESEND_LEFT_MS = 1_000;

interface Settings {
  readonly headers: Readonly<Record<string, string>>;
  readonly identity: ClientIdentity | null;
  readonly tokens: AccessTokens | null;
}

interface Remembered {
  readonly version: number;
  readonly settings: Promise<Settings>;
}

const NOTHING: Settings = { headers: {}, identity: null, tokens: null };

/** Omits the header that the authentication sets itself. */
function withoutName(headers: Readonly<Record<string, string>>, name: string): Record<string, string> {
  const lower = name.toLowerCase();
  return Object.fromEntries(Object.entries(headers).filter(([key]) => key.toLowerCase() !== lower));
}

function prepare(
  headers: Readonly<Record<string, string>>,
  authentication: Authentication | null,
  { http, clock }: ReceiverAccessOptions,
): Settings {
  if (authentication === null) {
    return { ...NOTHING, headers };
  }
  if (authentication.type === "header") {
    const { name, value } = authentication;
    return { ...NOTHING, headers: { ...withoutName(headers, name), [name]: value } };
  }
  if (authentication.type === "oauth2_client_credentials") {
    const tokens = new AccessTokens(authentication, { http, clock });
    return { ...NOTHING, headers: withoutName(headers, "authorization"), tokens };
  }
  const { certificate, private_key: privateKey } = authentication;
  return { ...NOTHING, headers, identity: http.createIdentity(certificate, privateKey) };
}

/** Sends with the endpoint's settings, if it has any. */
export class ReceiverAccess {
  readonly #options: ReceiverAccessOptions;
  readonly #remembered = new Map<string, Remembered>();

  constructor(options: ReceiverAccessOptions) {
    this.#options = options;
  }

  /**
   * Sends within the request's single deadline. If the receiver rejects a cached access token with 401, the token is
   * replaced once. The identical request is then sent again, because the first one was not accepted. Without a new
   * token in time, the 401 stands.
   */
  async send(request: SendRequest, endpoint: ReceiverEndpoint): Promise<SendResult> {
    const { http, clock } = this.#options;
    if (endpoint.request_version === null) {
      return await http.send(request);
    }
    const startedAt = clock.now();
    const { headers, identity, tokens } = await this.#settingsOf(endpoint);
    const base = {
      ...request,
      // Our headers come last, so that no setting replaces them.
      headers: { ...headers, ...request.headers },
      ...(identity === null ? undefined : { identity }),
    };
    return tokens === null
      ? await http.send(base)
      : await sendWithToken(this.#options, base, tokens, startedAt);
  }

  #settingsOf(endpoint: ReceiverEndpoint): Promise<Settings> {
    const { endpoint_id: id } = endpoint;
    const version = endpoint.request_version ?? 0;
    const known = this.#remembered.get(id);
    if (known !== undefined && known.version >= version) {
      return known.settings;
    }
    this.#forget(known);
    const entry = { version, settings: readSettings(endpoint, this.#options) };
    // On failure, the next call tries again: the database or a key service was unreachable.
    entry.settings.catch(() => {
      if (this.#remembered.get(id) === entry) {
        this.#remembered.delete(id);
      }
    });
    const [oldest] = this.#remembered;
    if (putBounded(this.#remembered, id, entry, REMEMBERED_MAX) !== undefined) {
      this.#forget(oldest?.[1]);
    }
    return entry.settings;
  }

  #forget(entry: Remembered | undefined): void {
    void entry?.settings.then(
      ({ identity }) => {
        if (identity !== null) {
          this.#options.http.forgetIdentity(identity);
        }
      },
      () => undefined,
    );
  }
}

async function readSettings(endpoint: ReceiverEndpoint, options: ReceiverAccessOptions): Promise<Settings> {
  const { endpoint_id: id, tenant_id: tenantId } = endpoint;
  const stored = await options.load(tenantId, id);
  if (stored === undefined) {
    return NOTHING;
  }
  const headers = JSON.parse(stored.headers ?? "{}") as Record<string, string>;
  if (stored.authentication === null) {
    return prepare(headers, null, options);
  }
  const { version, sealed } = stored.authentication;
  const text = await options.open(endpoint, authenticationAad(tenantId, id, version), sealed);
  return prepare(headers, JSON.parse(text) as Authentication, options);
}

/** An attempt with a token, from its start. */
interface TokenAttempt {
  readonly request: SendRequest;
  readonly tokens: AccessTokens;
  readonly startedAt: number;
}

type Sending = Pick<ReceiverAccessOptions, "http" | "clock" | "timers">;

async function sendWithToken(
  sending: Sending,
  request: SendRequest,
  tokens: AccessTokens,
  startedAt: number,
): Promise<SendResult> {
  const attempt = { request, tokens, startedAt };
  const token = await tokens.get();
  if ("problem" in token) {
    return withoutToken(startedAt, sending.clock.now() - startedAt, token.problem);
  }
  const result = await sendOnce(sending, attempt, token.value);
  if (result.status !== UNAUTHORIZED || token.fresh) {
    return result;
  }
  return (await sendAgain(sending, attempt)) ?? result;
}

/** Returns the rest of the attempt's deadline, in milliseconds. */
function leftMs({ clock }: Sending, { request, startedAt }: TokenAttempt): number {
  return request.deadlineMs - (clock.now() - startedAt);
}

async function sendOnce(sending: Sending, attempt: TokenAttempt, token: string): Promise<SendResult> {
  const { request, tokens, startedAt } = attempt;
  const result = await sending.http.send({
    ...request,
    headers: { ...request.headers, Authorization: `Bearer ${token}` },
    deadlineMs: Math.max(1, leftMs(sending, attempt)),
  });
  if (result.status === UNAUTHORIZED) {
    tokens.forget(token);
  }
  return { ...result, startedAt, durationMs: result.startedAt - startedAt + result.durationMs };
}

/**
 * Sends the identical request again with a new token. Returns undefined without a new token or enough time: a request
 * that is cut off may have been accepted, whereas the 401 shows that it was not.
 */
async function sendAgain(sending: Sending, attempt: TokenAttempt): Promise<SendResult | undefined> {
  const waitMs = leftMs(sending, attempt) - RESEND_LEFT_MS;
  if (waitMs <= 0) {
    return undefined;
  }
  const token = await within(sending.timers, waitMs, attempt.tokens.get()).catch((error: unknown) => {
    if (error instanceof NoAnswerError) {
      return undefined;
    }
    throw error;
  });
  if (token === undefined || "problem" in token || leftMs(sending, attempt) < RESEND_LEFT_MS) {
    return undefined;
  }
  return await sendOnce(sending, attempt, token.value);
}

function withoutToken(startedAt: number, durationMs: number, problem: string): SendResult {
  return {
    startedAt,
    durationMs,
    status: null,
    error: "authentication",
    retryAfterMs: null,
    responseBody: problem,
  };
}
