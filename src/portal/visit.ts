/** A signed-in request: identity, scopes and API access. */
import { createHmac, createSecretKey, timingSafeEqual } from "node:crypto";
import type { FastifyRequest } from "fastify";
import type { InProcessAnswer, InProcessCall } from "#api/in-process.ts";
import type { SignetServer } from "#http/types.ts";
import { ERROR_CATALOGUE, type ErrorCode, SignetError } from "#domain/errors.ts";
import type { Brand } from "./brand.ts";
import type { PageOptions } from "./context.ts";
import type { TemporalUi } from "#temporal/views.ts";
import type { SignedIn } from "#tokens/portal-sessions.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Set before the handler of every route that declares `portal`. */
    visit: Visit;
  }
}

/** Calls the public API on behalf of the session. */
export interface PortalApi {
  /** @throws SignetError with the API's code */
  get<Answer>(path: string): Promise<Answer>;
  /** Returns the answer's JSON text, so that a tenant's numbers stay exact. @throws SignetError as `get` */
  text(path: string): Promise<string>;
  /**
   * @param body value to send as JSON; a JsonText is sent unchanged
   * @throws SignetError with the API's code
   */
  send<Answer>(
    method: "DELETE" | "PATCH" | "POST",
    path: string,
    body?: unknown,
    idempotencyKey?: string,
  ): Promise<Answer>;
}

/** The operator of a visit in the operators' console. */
export interface VisitingOperator {
  readonly name: string;
  readonly expiresAt: Date;
}

export interface Visit extends SignedIn {
  readonly brand: Brand;
  /** Set in the operators' console, whose visits see no content and change nothing of a tenant. */
  readonly operator: VisitingOperator | undefined;
  /** Token that every form must contain; only this session's pages know it. */
  readonly csrf: string;
  readonly api: PortalApi;
  readonly temporal: TemporalUi;
  /** Checks whether the session has the scope; pages hide what requires a missing scope. */
  can(scope: string): boolean;
}

interface Problem {
  readonly code?: string;
  readonly detail?: string;
}

/** Returns the error of an API's answer. */
export function refusal({ body, headers }: Pick<InProcessAnswer, "body" | "headers">): SignetError {
  const { code = "", detail, ...rest } = (body ?? {}) as Problem & Readonly<Record<string, unknown>>;
  const known = code in ERROR_CATALOGUE ? (code as ErrorCode) : "INTERNAL";
  const retryAfter = headers["retry-after"];
  return new SignetError(known, {
    ...(detail === undefined ? {} : { detail }),
    extensions: rest,
    ...(typeof retryAfter === "string" ? { headers: { "retry-after": retryAfter } } : {}),
  });
}

/** Derives the token of a session's forms from the cookie's secret, which is not stored. */
function csrfToken(secret: string): string {
  const key = createSecretKey(Buffer.from(secret));
  return createHmac("sha256", key).update("signet portal forms").digest("base64url");
}

/** Compares two form tokens in constant time. */
export function isSameToken(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}

interface VisitServices extends Pick<PageOptions, "calls" | "temporal"> {
  readonly server: SignetServer;
  readonly brand: Brand;
  readonly operator?: VisitingOperator | undefined;
}

/** Members of answers that are content, or may hold secrets, and what operators see of them. */
const HIDDEN: Readonly<Record<string, unknown>> = {
  event: null,
  response_body: null,
  headers: {},
  metadata: null,
};

/** Returns an answer without content, for operators. URLs lose their query, which may hold a secret. */
function withoutContent(text: string): unknown {
  return text === ""
    ? undefined
    : JSON.parse(text, (name, value: unknown) => {
        if (Object.hasOwn(HIDDEN, name)) {
          return HIDDEN[name];
        }
        return name === "url" && typeof value === "string" ? value.split("?", 1)[0] : value;
      });
}

/** Creates the visit of a request. */
export function visitOf(
  request: FastifyRequest,
  signedIn: SignedIn & { readonly secret: string },
  { server, calls, temporal, brand, operator }: VisitServices,
): Visit {
  const { secret, ...rest } = signedIn;
  async function call(asked: Omit<InProcessCall, "requestId">): Promise<InProcessAnswer> {
    const answer = await calls.call(server, rest.identity, { ...asked, requestId: request.id });
    if (answer.status >= 400) {
      throw refusal(answer);
    }
    return answer;
  }
  async function ask<Answer>(asked: Omit<InProcessCall, "requestId">): Promise<Answer> {
    const answer = await call(asked);
    return (operator === undefined ? answer.body : withoutContent(answer.text)) as Answer;
  }
  return {
    ...rest,
    brand,
    operator,
    csrf: csrfToken(secret),
    api: {
      get: async (path) => await ask({ method: "GET", path }),
      text: async (path) => {
        const { text } = await call({ method: "GET", path });
        return operator === undefined ? text : JSON.stringify(withoutContent(text));
      },
      send: async (method, path, body, idempotencyKey) => await ask({ method, path, body, idempotencyKey }),
    },
    temporal,
    can: (scope) => rest.identity.scopes.has(scope),
  };
}
