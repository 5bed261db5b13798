/**
 * The agent holds a credential, follows its rotation, and gives local programs tokens, but never the secret. A program
 * in any language needs one local request for a token and takes no part in the rotation.
 *
 *   GET /token?scope=a+b   {"access_token","token_type","expires_in","scope"}
 *   GET /healthz           200 while the agent can give a token, otherwise 503
 */
import { unlink } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, connect as connectSocket } from "node:net";
import type { Connection } from "#lib/client/token-sources.ts";
import { endUnused } from "#runtime/http-server.ts";
import { limitPipelining } from "#runtime/pipelined-requests.ts";
import type { AgentAddress } from "./listen-address.ts";
import { type Guard, hostNames, type Refusal, refuseForeign, refuseUnauthorized } from "./request-guard.ts";
import { readScopes, tokenRefusal, TokenRequests } from "./token-requests.ts";

const MAX_CONNECTIONS = 256;
/** Set while the socket's file is created, so that its mode is 0600 from the start. */
const OWNER_ONLY_UMASK = 0o177;
const REFUSED_TOKEN_HEADER = "x-signet-refused-token";

export interface AgentOptions {
  readonly connection: Connection;
  readonly address: AgentAddress;
  /** Secret that callers on loopback must present; null for a unix socket. */
  readonly secret: string | null;
  /** Receives the reason if the agent gets no token. */
  readonly report: (line: string) => void;
}

export interface Agent {
  /** Address of the listener, as a URL or as `unix:<path>`. */
  readonly address: string;
  close(): Promise<void>;
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, {
    "content-type": "application/json",
    "cache-control": "no-store",
    ...(status === 503 ? { "retry-after": "1" } : {}),
  });
  response.end(JSON.stringify(body));
}

function refuse(response: ServerResponse, { status, code, detail }: Refusal): void {
  answer(response, status, { error: code.toLowerCase(), code, error_description: detail });
}

class Handler {
  readonly #tokens: TokenRequests;
  readonly #guard: () => Guard;
  readonly #report: (line: string) => void;

  constructor(options: AgentOptions, guard: () => Guard) {
    this.#tokens = new TokenRequests(options.connection);
    this.#guard = guard;
    this.#report = options.report;
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const guard = this.#guard();
    const foreign = refuseForeign(request, guard);
    if (foreign !== undefined) {
      refuse(response, foreign);
      return;
    }
    const [path = "", query = ""] = (request.url ?? "").split("?", 2);
    if (path !== "/token" && path !== "/healthz") {
      refuse(response, { status: 404, code: "NOT_FOUND", detail: "the only paths are /token and /healthz" });
    } else if (request.method !== "GET") {
      response.setHeader("allow", "GET");
      refuse(response, { status: 405, code: "METHOD_NOT_ALLOWED", detail: "only GET is allowed" });
    } else if (path === "/healthz") {
      await this.#health(response);
    } else {
      const unauthorized = refuseUnauthorized(request, guard);
      await (unauthorized === undefined
        ? this.#token(request, response, new URLSearchParams(query))
        : refuse(response, unauthorized));
    }
  }

  async #health(response: ServerResponse): Promise<void> {
    try {
      await this.#tokens.token([]);
      answer(response, 200, { status: "ok" });
    } catch (error) {
      this.#report(tokenRefusal(error).detail);
      answer(response, 503, { status: "failing", code: tokenRefusal(error).code });
    }
  }

  async #token(request: IncomingMessage, response: ServerResponse, query: URLSearchParams): Promise<void> {
    const scopes = readScopes(query.get("scope"));
    if (scopes === undefined || query.keys().some((name) => name !== "scope")) {
      refuse(response, {
        status: 400,
        code: "INVALID_REQUEST",
        detail: "/token accepts only the parameter scope, with valid scopes",
      });
      return;
    }
    try {
      const refused = request.headers[REFUSED_TOKEN_HEADER];
      const token = await this.#tokens.token(scopes, typeof refused === "string" ? refused : undefined);
      answer(response, 200, {
        access_token: token.value,
        token_type: "Bearer",
        expires_in: this.#tokens.secondsLeft(token),
        scope: token.scope,
      });
    } catch (error) {
      const refusal = tokenRefusal(error);
      this.#report(refusal.detail);
      refuse(response, refusal);
    }
  }
}

/** Checks whether a process listens on the socket. */
async function isInUse(path: string): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connectSocket(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

async function listen(server: Server, address: AgentAddress): Promise<void> {
  if (address.kind === "unix" && !(await isInUse(address.path))) {
    // Remove the socket file of an agent that was killed.
    await unlink(address.path).catch(() => undefined);
  }
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    if (address.kind === "tcp") {
      server.listen(address.port, address.host, resolve);
      return;
    }
    const umask = process.umask(OWNER_ONLY_UMASK);
    try {
      server.listen(address.path, resolve);
    } finally {
      process.umask(umask);
    }
  });
}

/** Starts the agent. */
export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { address, secret } = options;
  let hosts: ReadonlySet<string> | null = address.kind === "unix" ? null : new Set();
  const handler = new Handler(options, () => ({ hosts, secret: address.kind === "unix" ? null : secret }));
  const server = createServer(
    { headersTimeout: 5_000, requestTimeout: 10_000, connectionsCheckingInterval: 1_000 },
    (request, response) => {
      // Requests have no body here; if one arrives, it is not read.
      handler.handle(request, response).catch(() => request.socket.destroy());
    },
  );
  limitPipelining(server);
  endUnused(server);
  server.maxConnections = MAX_CONNECTIONS;
  await listen(server, address);
  let name = address.kind === "unix" ? `unix:${address.path}` : "";
  if (address.kind === "tcp") {
    const { port } = server.address() as AddressInfo;
    hosts = hostNames(address.host, port);
    name = `http://${[...hosts][0]}`;
  }
  return {
    address: name,
    close: async () => {
      const closed = new Promise((resolve) => {
        server.close(resolve);
      });
      server.closeIdleConnections();
      await closed;
    },
  };
}
