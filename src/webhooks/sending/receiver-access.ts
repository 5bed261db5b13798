/**
 * Sends to endpoints that have headers of their own or want to know who sends. Endpoints without either do not come
 * here. What is needed is opened once per version and worker; a new version drops what the old one left open.
 */
import type { StoredRequestSettings } from "../../database/repositories/endpoints/endpoint-authentications.ts";
import { putBounded } from "../../domain/bounded-map.ts";
import type { Clock } from "../../domain/clock.ts";
import { type Authentication, authenticationAad } from "./authentication.ts";
import { type AccessTokens, createAccessTokens } from "./access-tokens.ts";
import { NoAnswerError, within } from "../../runtime/within.ts";
import type { ClientIdentity, HttpSender, SendRequest, SendResult } from "./http-sender.ts";

/** Which endpoint a request goes to. */
export interface ReceiverEndpoint {
  readonly id: string;
  readonly tenantId: string;
  readonly wrappedDataKey: string;
  /** As it was loaded; a newer one that is at hand is used. */
  readonly requestVersion: number;
}

/** Sends as the endpoint's settings say. */
export interface ReceiverAccess {
  /**
   * Within the request's one deadline. An access token that the receiver refuses with 401 is replaced once, if it was one
   * from before, and the request is sent again as it was: its first sending was not taken. Where no new token can be had
   * in time, the 401 stands.
   */
  send(request: SendRequest, endpoint: ReceiverEndpoint): Promise<SendResult>;
}

export interface ReceiverAccessOptions {
  readonly http: HttpSender;
  readonly clock: Clock;
  readonly load: (tenantId: string, id: string) => Promise<StoredRequestSettings | undefined>;
  /** Opens a tenant's envelope. */
  readonly open: (endpoint: ReceiverEndpoint, aad: string, sealed: string) => Promise<string>;
}

const REMEMBERED_MAX = 1_000;
const UNAUTHORIZED = 401;
/** Nothing is sent again with less than this left of its attempt. */
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

/** Without those that the authentication writes itself. */
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
    const tokens = createAccessTokens(authentication, { http, clock });
    return { ...NOTHING, headers: withoutName(headers, "authorization"), tokens };
  }
  const { certificate, private_key: privateKey } = authentication;
  return { ...NOTHING, headers, identity: http.createIdentity(certificate, privateKey) };
}

export function createReceiverAccess(options: ReceiverAccessOptions): ReceiverAccess {
  const { http, clock } = options;
  const remembered = new Map<string, Remembered>();

  async function read(endpoint: ReceiverEndpoint): Promise<Settings> {
    const { id, tenantId } = endpoint;
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

  function forget(entry: Remembered | undefined): void {
    void entry?.settings.then(
      ({ identity }) => {
        if (identity !== null) {
          http.forgetIdentity(identity);
        }
      },
      () => undefined,
    );
  }

  function settingsOf(endpoint: ReceiverEndpoint): Promise<Settings> {
    const { id, requestVersion: version } = endpoint;
    const known = remembered.get(id);
    if (known !== undefined && known.version >= version) {
      return known.settings;
    }
    forget(known);
    const entry = { version, settings: read(endpoint) };
    // Whoever comes next tries again: the database or a key service was out of reach.
    entry.settings.catch(() => {
      if (remembered.get(id) === entry) {
        remembered.delete(id);
      }
    });
    const [oldest] = remembered;
    if (putBounded(remembered, id, entry, REMEMBERED_MAX) !== undefined) {
      forget(oldest?.[1]);
    }
    return entry.settings;
  }

  return {
    async send(request, endpoint) {
      const startedAt = clock.now();
      const { headers, identity, tokens } = await settingsOf(endpoint);
      const base = {
        ...request,
        // Ours last: no setting replaces them.
        headers: { ...headers, ...request.headers },
        ...(identity === null ? undefined : { identity }),
      };
      return tokens === null ? await http.send(base) : await sendWithToken(options, base, tokens, startedAt);
    },
  };
}

/** One attempt with a token, from its beginning on. */
interface TokenAttempt {
  readonly request: SendRequest;
  readonly tokens: AccessTokens;
  readonly startedAt: number;
}

type Sending = Pick<ReceiverAccessOptions, "http" | "clock">;

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

/** What is left of the attempt's deadline, in milliseconds. */
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
 * The second sending, with a new token, byte for byte the first. Undefined where there is no new token, or too little
 * time: a request that is cut off may have been taken, where the receiver's 401 says that it was not.
 */
async function sendAgain(sending: Sending, attempt: TokenAttempt): Promise<SendResult | undefined> {
  const waitMs = leftMs(sending, attempt) - RESEND_LEFT_MS;
  if (waitMs <= 0) {
    return undefined;
  }
  const token = await within(waitMs, attempt.tokens.get()).catch((error: unknown) => {
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
