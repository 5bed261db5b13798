/** A signed-in request: identity, scopes and API access. */
import { createHmac, createSecretKey, timingSafeEqual } from "node:crypto";
import type { FastifyRequest } from "fastify";
import type { Static } from "typebox";
import type { InProcessAnswer } from "#api/in-process.ts";
import type { RevocationQuery } from "#api/schemas/revocations.ts";
import type { SignetServer } from "#http/types.ts";
import { ERROR_CATALOGUE, type ErrorCode, SignetError } from "#domain/errors.ts";
import { proofSource } from "#lib/client/resources/by-hand.ts";
import type { DeadLetters } from "#lib/client/resources/dead-letters.ts";
import type { Deliveries } from "#lib/client/resources/deliveries.ts";
import { Resources } from "#lib/client/resources/resources.ts";
import type { ApiCall, Transport } from "#lib/client/transport.ts";
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

/** The public API on behalf of the session, without its streams. Its errors are SignetErrors with the API's code. */
export type PortalApi = Omit<Resources, "deadLetters" | "deliveries"> & {
  readonly deadLetters: Omit<DeadLetters, "export">;
  readonly deliveries: Omit<Deliveries, "stream">;
  readonly proofs: ReturnType<typeof proofSource>;
};

/** Fields of forms that change how the API is called. */
interface FormOptions {
  readonly once?: string | undefined;
  readonly wait?: Static<typeof RevocationQuery>["wait"] | undefined;
}

/** The operator of a visit in the operators' console. */
export interface VisitingOperator {
  readonly name: string;
  readonly expiresAt: Date;
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

/** The visit of a request. */
export class Visit implements SignedIn {
  readonly session: SignedIn["session"];
  readonly identity: SignedIn["identity"];
  readonly hash: SignedIn["hash"];
  readonly brand: Brand;
  /** Set in the operators' console, whose visits see no content and change nothing of a tenant. */
  readonly operator: VisitingOperator | undefined;
  readonly temporal: TemporalUi;
  /** Token that every form must contain; only this session's pages know it. */
  readonly csrf: string;
  readonly api: PortalApi;
  readonly #texts = new WeakMap<object, string>();
  readonly #call: (asked: ApiCall) => Promise<unknown>;

  constructor(
    request: FastifyRequest,
    { session, identity, hash, secret }: SignedIn & { readonly secret: string },
    { server, calls, temporal, brand, operator }: VisitServices,
  ) {
    this.session = session;
    this.identity = identity;
    this.hash = hash;
    this.brand = brand;
    this.operator = operator;
    this.temporal = temporal;
    this.csrf = csrfToken(secret);
    this.#call = async (asked) => {
      const answer = await calls.call(server, identity, { ...asked, requestId: request.id });
      return this.#bodyOf(answer);
    };
    this.api = this.apiFor({});
  }

  #bodyOf(answer: InProcessAnswer): unknown {
    if (answer.status >= 400) {
      throw refusal(answer);
    }
    const { body, text } = answer;
    if (this.operator !== undefined) {
      return withoutContent(text);
    }
    if (typeof body === "object" && body !== null) {
      this.#texts.set(body, text);
    }
    return body;
  }

  /** Returns the API for a form that is sent: its change takes effect once. */
  apiFor({ once, wait }: FormOptions): PortalApi {
    const transport = {
      // A key of the client would make each submission of a form another request.
      call: async <T>(asked: ApiCall) =>
        (await this.#call({ ...asked, query: { ...asked.query, wait }, idempotencyKey: once })) as T,
    } as Transport;
    return Object.assign(new Resources(transport), { proofs: proofSource(transport) });
  }

  /** Returns the JSON text of an answer, in which a tenant's numbers are exact. */
  textOf(answer: object): string {
    return this.#texts.get(answer) ?? JSON.stringify(answer);
  }

  /** Checks whether the session has the scope; pages hide what requires a missing scope. */
  can(scope: string): boolean {
    return this.identity.scopes.has(scope);
  }
}
