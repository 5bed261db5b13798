/**
 * Calls of the API by its own process, in the name of somebody whose identity it has established. The portal works this
 * way: every call goes through the routes' own guards, schemas and limits, so it can do nothing that a token with the same
 * scopes could not do. Such a call is no network request; what marks it is an address that no socket can have.
 */
import type { IncomingMessage } from "node:http";
import type { ClientIdentification, ClientOrigin } from "../http/mutual-tls/client-identification.ts";
import type { Identity } from "../domain/identity.ts";
import type { AdmitRequest, ScopeGuard } from "../tokens/guards/authentication.ts";
import type { SignetServer } from "../http/types.ts";

export interface InProcessCall {
  readonly method: "DELETE" | "GET" | "PATCH" | "POST";
  /** With the query. */
  readonly path: string;
  /** Sent as JSON; a {@link JsonText} as it is. */
  readonly body?: unknown;
  readonly idempotencyKey?: string | undefined;
  /** The id of the request that makes the call. */
  readonly requestId: string;
}

/** JSON as somebody wrote it: 1.0, 2^60 and the order of members survive in it. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** An answer, with its JSON body. */
export interface InProcessAnswer {
  readonly status: number;
  readonly body: unknown;
  /** The body as it was written. */
  readonly text: string;
  readonly headers: Readonly<Record<string, unknown>>;
}

const ORIGIN: ClientOrigin = {
  certificate: undefined,
  problem: "missing",
  address: "",
  certificateRequired: false,
  forgedHeader: false,
};

/** Makes the way in for one server. */
export class InProcessCalls {
  readonly #callers = new Map<string, { readonly identity: Identity; readonly requestId: string }>();
  #last = 0;

  #callerOf(raw: IncomingMessage): { readonly identity: Identity; readonly requestId: string } | undefined {
    return (raw as { isLightMyRequest?: boolean }).isLightMyRequest === true
      ? this.#callers.get(raw.socket.remoteAddress ?? "")
      : undefined;
  }

  /** Knows these calls as what they are, and asks `others` about everything else. */
  clients(others: ClientIdentification): ClientIdentification {
    return {
      identify: (raw) => (this.#callerOf(raw) === undefined ? others.identify(raw) : ORIGIN),
      requestIdOf: (raw) => this.#callerOf(raw)?.requestId ?? others.requestIdOf(raw),
    };
  }

  /** The guard for these calls, and `outer` for everything else. The routes' scopes and the tenant's rates hold for both. */
  guard(outer: ScopeGuard, admit: AdmitRequest): ScopeGuard {
    return (required) => {
      const guardOthers = outer(required);
      const callerOf = (raw: IncomingMessage) => this.#callerOf(raw);
      return function guard(request, reply, done) {
        const caller = callerOf(request.raw);
        if (caller === undefined) {
          guardOthers.call(this, request, reply, done);
          return;
        }
        request.identity = caller.identity;
        Promise.resolve(admit(request, reply, required)).then(() => done(), done);
      };
    };
  }

  /** Calls a route. */
  async call(server: SignetServer, identity: Identity, call: InProcessCall): Promise<InProcessAnswer> {
    const { method, path, body, idempotencyKey, requestId } = call;
    this.#last += 1;
    const address = `in-process ${this.#last}`;
    this.#callers.set(address, { identity, requestId });
    try {
      const answer = await server.inject({
        method,
        url: path,
        remoteAddress: address,
        headers: {
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
        },
        ...(body === undefined
          ? {}
          : { payload: body instanceof JsonText ? body.text : JSON.stringify(body) }),
      });
      const text = answer.payload;
      return {
        status: answer.statusCode,
        body: text === "" ? undefined : (JSON.parse(text) as unknown),
        text,
        headers: answer.headers,
      };
    } finally {
      this.#callers.delete(address);
    }
  }
}
