/**
 * Calls of an API from its own process, on behalf of an authenticated caller. The portal and the operators' console use
 * them. Every call passes the routes' guards, schemas and limits, so it can do no more than a token with the same scopes
 * or role. Such a call uses no network; it is marked by an address that no socket can have.
 */
import type { IncomingMessage } from "node:http";
import type { ClientIdentification, ClientOrigin } from "#http/mutual-tls/client-identification.ts";
import type { Identity } from "#domain/identity.ts";
import type { ScopeGuard } from "#tokens/guards/authentication.ts";
import type { AdmitRequest } from "#tokens/guards/admission.ts";
import type { SignetServer } from "#http/types.ts";
import { stringifyWithRaw } from "#lib/client/raw-json.ts";
import { type ApiCall, pathOf } from "#lib/client/transport.ts";

export interface InProcessCall extends ApiCall {
  /** Id of the request that makes the call. */
  readonly requestId: string;
}

/** A response with its JSON body. */
export interface InProcessAnswer {
  readonly status: number;
  readonly body: unknown;
  /** The body as text. */
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

/** Makes in-process calls to a server, on behalf of tenants' callers or of operators. */
export class InProcessCalls<Caller = Identity> {
  readonly #callers = new Map<string, { readonly identity: Caller; readonly requestId: string }>();
  #last = 0;

  #callerOf(raw: IncomingMessage): { readonly identity: Caller; readonly requestId: string } | undefined {
    return (raw as { isLightMyRequest?: boolean }).isLightMyRequest === true
      ? this.#callers.get(raw.socket.remoteAddress ?? "")
      : undefined;
  }

  /** Identifies in-process calls, and uses `others` for all other requests. */
  clients(others: ClientIdentification): ClientIdentification {
    return {
      identify: (raw) => (this.#callerOf(raw) === undefined ? others.identify(raw) : ORIGIN),
      requestIdOf: (raw) => this.#callerOf(raw)?.requestId ?? others.requestIdOf(raw),
    };
  }

  /** Returns on whose behalf a request is an in-process call; undefined for all other requests. */
  identityOf(raw: IncomingMessage): Caller | undefined {
    return this.#callerOf(raw)?.identity;
  }

  /** Guards in-process calls, and uses `outer` for all other requests. Scopes and rate limits apply to both. */
  guard(this: InProcessCalls, outer: ScopeGuard, admit: AdmitRequest): ScopeGuard {
    return (required) => {
      const guardOthers = outer(required);
      const identityOf = (raw: IncomingMessage) => this.identityOf(raw);
      return function guard(request, reply, done) {
        const identity = identityOf(request.raw);
        if (identity === undefined) {
          guardOthers.call(this, request, reply, done);
          return;
        }
        request.identity = identity;
        Promise.resolve(admit(request, reply, required)).then(() => done(), done);
      };
    };
  }

  /** Calls a route. */
  async call(server: SignetServer, identity: Caller, call: InProcessCall): Promise<InProcessAnswer> {
    const { method, body, idempotencyKey, requestId } = call;
    this.#last += 1;
    const address = `in-process ${this.#last}`;
    this.#callers.set(address, { identity, requestId });
    try {
      const answer = await server.inject({
        method,
        url: pathOf(call),
        remoteAddress: address,
        headers: {
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
        },
        ...(body === undefined ? {} : { payload: stringifyWithRaw(body) }),
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
