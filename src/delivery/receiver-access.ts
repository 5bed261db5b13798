/**
 * Sends to endpoints that have headers of their own or want to know who sends. Endpoints without either do not come
 * here. What is needed is opened once per version and worker; a new version drops what the old one left open.
 */
import type { StoredRequestSettings } from "../database/repositories/endpoint-authentications.ts";
import { putBounded } from "../domain/bounded-map.ts";
import type { Clock } from "../domain/clock.ts";
import { type Authentication, authenticationAad } from "../endpoints/authentication.ts";
import { type AccessTokens, createAccessTokens } from "./access-tokens.ts";
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
   * from before, and the request is sent again: its first sending was not taken.
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

async function sendWithToken(
  { http, clock }: Pick<ReceiverAccessOptions, "http" | "clock">,
  request: SendRequest,
  tokens: AccessTokens,
  startedAt: number,
): Promise<SendResult> {
  for (let resent = false; ; resent = true) {
    const token = await tokens.get();
    const spentMs = clock.now() - startedAt;
    if ("problem" in token) {
      return withoutToken(startedAt, spentMs, token.problem);
    }
    const result = await http.send({
      ...request,
      headers: { ...request.headers, Authorization: `Bearer ${token.value}` },
      deadlineMs: Math.max(1, request.deadlineMs - spentMs),
    });
    const refused = result.status === UNAUTHORIZED;
    if (refused) {
      tokens.forget(token.value);
    }
    const late = clock.now() - startedAt >= request.deadlineMs;
    if (!refused || token.fresh || resent || late) {
      return { ...result, startedAt, durationMs: result.startedAt - startedAt + result.durationMs };
    }
  }
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
