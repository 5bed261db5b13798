/** A signed-in request: who it is, what it may do, and the API as it can call it. */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { FastifyRequest } from "fastify";
import type { InProcessAnswer, InProcessCall } from "../api/in-process.ts";
import type { SignetServer } from "../http/types.ts";
import { ERROR_CATALOGUE, type ErrorCode, SignetError } from "../domain/errors.ts";
import type { PortalOptions } from "./context.ts";
import type { SignedIn } from "../tokens/portal-sessions.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Set before the handler of every route that declares `portal`. */
    visit: Visit;
  }
}

/** Calls the public API in the session's name. */
export interface PortalApi {
  /** @throws SignetError what the API answers, with its code */
  get<Answer>(path: string): Promise<Answer>;
  /** The answer's JSON as it was written: a tenant's own numbers survive. @throws SignetError as `get` */
  text(path: string): Promise<string>;
  /**
   * @param body sent as JSON; a JsonText as it is
   * @throws SignetError what the API answers, with its code
   */
  send<Answer>(
    method: "DELETE" | "PATCH" | "POST",
    path: string,
    body?: unknown,
    idempotencyKey?: string,
  ): Promise<Answer>;
}

export interface Visit extends SignedIn {
  /** What a form has to bring along: nobody but this session's pages knows it. */
  readonly csrf: string;
  readonly api: PortalApi;
  /** Where operators see a workflow in Temporal's web UI; undefined where there is none. */
  workflowUrl(workflowId: string): string | undefined;
  /** Whether the session holds the scope: without it, what needs it is not shown. */
  can(scope: string): boolean;
}

interface Problem {
  readonly code?: string;
  readonly detail?: string;
}

function refusal(body: unknown, headers: Readonly<Record<string, unknown>>): SignetError {
  const { code = "", detail, ...rest } = (body ?? {}) as Problem & Readonly<Record<string, unknown>>;
  const known = code in ERROR_CATALOGUE ? (code as ErrorCode) : "INTERNAL";
  const retryAfter = headers["retry-after"];
  return new SignetError(known, {
    ...(detail === undefined ? {} : { detail }),
    extensions: rest,
    ...(typeof retryAfter === "string" ? { headers: { "retry-after": retryAfter } } : {}),
  });
}

/** The token of a session's forms: it can be made of the cookie's secret and of nothing that is stored. */
function csrfToken(secret: string): string {
  return createHmac("sha256", secret).update("signet portal forms").digest("base64url");
}

/** Whether a form came with the token of the session's forms. */
export function isSameToken(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}

interface VisitParts extends Pick<PortalOptions, "calls" | "temporal"> {
  readonly server: SignetServer;
}

/** Makes the visit of a request. */
export function visitOf(
  request: FastifyRequest,
  signedIn: SignedIn & { readonly secret: string },
  { server, calls, temporal }: VisitParts,
): Visit {
  const { secret, ...rest } = signedIn;
  async function call(asked: Omit<InProcessCall, "requestId">): Promise<InProcessAnswer> {
    const answer = await calls.call(server, rest.identity, { ...asked, requestId: request.id });
    if (answer.status >= 400) {
      throw refusal(answer.body, answer.headers);
    }
    return answer;
  }
  async function ask<Answer>(asked: Omit<InProcessCall, "requestId">): Promise<Answer> {
    return (await call(asked)).body as Answer;
  }
  return {
    ...rest,
    csrf: csrfToken(secret),
    api: {
      get: async (path) => await ask({ method: "GET", path }),
      text: async (path) => (await call({ method: "GET", path })).text,
      send: async (method, path, body, idempotencyKey) => await ask({ method, path, body, idempotencyKey }),
    },
    workflowUrl: (id) =>
      temporal.uiUrl === undefined
        ? undefined
        : `${temporal.uiUrl}/namespaces/${encodeURIComponent(temporal.namespace)}/workflows/${encodeURIComponent(id)}`,
    can: (scope) => rest.identity.scopes.has(scope),
  };
}
