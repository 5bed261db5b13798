/**
 * A token endpoint on a real socket that rotates the secret of its one client like the service, when a test asks for
 * it. It fails on demand: the test controls which responses are lost, delayed or refused. Every other path is a
 * resource that requires a token of this server.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export const CLIENT_ID = "cl_0123456789abcdefghijklmn";

/** Returns the secret of a version, in a recognizable form. */
export function secretOf(version: number): string {
  return `sgn_live_sk_canary${String(version).padStart(43, "0")}`;
}

export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: Readonly<Record<string, unknown>>;
}

/** An exceptional reaction to one request. */
export type Incident =
  /** Responds with this status and body. */
  | {
      readonly kind: "answer";
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: unknown;
    }
  /** Processes the request and loses the response. */
  | { readonly kind: "lost" }
  /** Delays the response until `release` resolves. */
  | { readonly kind: "held"; readonly release: Promise<void> }
  | { readonly kind: "usual" };

export interface RotatingServer {
  readonly url: string;
  readonly requests: readonly SeenRequest[];
  /** Token requests only. */
  readonly tokenRequests: readonly SeenRequest[];
  readonly rotation: Rotation;
  /** Incidents for the next requests, one each. */
  readonly incidents: Incident[];
  /** Tokens that resources refuse, with their error codes. */
  readonly refusedTokens: Map<string, string>;
  close(): Promise<void>;
}

function json(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}) {
  response.writeHead(status, {
    "content-type": status < 400 ? "application/json" : "application/problem+json",
    "x-request-id": "req_0000000000000000000000rq",
    ...headers,
  });
  response.end(JSON.stringify(body));
}

class Rotation {
  /** Versions that authenticate. */
  readonly valid = new Set([1]);
  /** Versions whose response includes their successor. */
  readonly due = new Set<number>();
  /** Whether every version is due at once. */
  restless = false;
  lifetimeSeconds = 900;
  #issued = 0;

  answer(body: Readonly<Record<string, unknown>>): { status: number; body: unknown } {
    const presented = [...this.valid].find((version) => secretOf(version) === body["client_secret"]);
    if (body["client_id"] !== CLIENT_ID || presented === undefined) {
      return {
        status: 401,
        body: {
          error: "invalid_client",
          error_description: "Client authentication failed.",
          code: "INVALID_CLIENT",
        },
      };
    }
    const successor = presented + 1;
    const rotates = this.restless || this.due.has(presented);
    if (rotates) {
      this.valid.add(successor);
    }
    this.#issued += 1;
    return {
      status: 200,
      body: {
        access_token: `token-${this.#issued}`,
        token_type: "Bearer",
        expires_in: this.lifetimeSeconds,
        scope: body["scope"] ?? "webhooks:read",
        ...(rotates
          ? {
              credential_rotation: {
                credential_id: "crd_000000000000000000000000",
                version: successor,
                client_secret: secretOf(successor),
                predecessor_retires_by: "2027-01-01T00:00:00.000Z",
              },
            }
          : {}),
      },
    };
  }
}

function answerResource(
  response: ServerResponse,
  request: SeenRequest,
  refused: ReadonlyMap<string, string>,
) {
  const code = refused.get(String(request.headers.authorization).slice("Bearer ".length));
  if (code !== undefined) {
    json(response, 401, { code, status: 401, title: code });
  } else if (request.method === "DELETE") {
    response.writeHead(204).end();
  } else {
    json(response, 200, { data: [], next_cursor: null, seen: request.headers.authorization });
  }
}

/** Starts the server. Version 1 is the current secret. */
export async function startRotatingServer(): Promise<RotatingServer> {
  const requests: SeenRequest[] = [];
  const incidents: Incident[] = [];
  const refusedTokens = new Map<string, string>();
  const rotation = new Rotation();

  async function handle(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const raw = await text(incoming);
    const request = {
      method: incoming.method ?? "",
      path: incoming.url ?? "",
      headers: incoming.headers,
      body: (raw === "" ? {} : JSON.parse(raw)) as Readonly<Record<string, unknown>>,
    };
    requests.push(request);
    const incident = incidents.shift() ?? { kind: "usual" };
    if (incident.kind === "answer") {
      json(response, incident.status, incident.body ?? {}, { ...incident.headers });
      return;
    }
    if (incident.kind === "held") {
      await incident.release;
    }
    if (request.path !== "/v1/auth/token") {
      if (incident.kind === "lost") {
        incoming.socket.destroy();
        return;
      }
      answerResource(response, request, refusedTokens);
      return;
    }
    const { status, body } = rotation.answer(request.body);
    if (incident.kind === "lost") {
      incoming.socket.destroy();
    } else {
      json(response, status, body);
    }
  }

  const server = createServer((incoming, response) => {
    handle(incoming, response).catch(() => incoming.socket.destroy());
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    incidents,
    refusedTokens,
    rotation,
    get tokenRequests() {
      return requests.filter(({ path }) => path === "/v1/auth/token");
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}
