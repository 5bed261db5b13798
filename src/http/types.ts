/** The types that every route file meets: the server with its type provider, and what a request carries. */
import type { TypeBoxTypeProvider } from "@fastify/type-provider-typebox";
import type {
  FastifyBaseLogger,
  FastifyInstance,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
} from "fastify";
import type { CertificateProblem } from "./mutual-tls/certificate-chain.ts";
import type { ClientCertificate } from "./mutual-tls/client-certificate.ts";
import type { EntryType } from "../compliance/entry-types.ts";
import type { OperatorRole } from "../domain/operator-roles.ts";
import type { Identity } from "../domain/identity.ts";
import type { TenantRate } from "./rate-limits/tenant-limits.ts";
import type { OperatorIdentity } from "../domain/identity.ts";

/** A Fastify server whose route schemas type their handlers. */
export type SignetServer = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>;

declare module "fastify" {
  interface FastifyContextConfig {
    /** Scopes that the token must hold, all of them; an empty list asks for a valid token only. */
    scopes?: readonly string[];
    /** Open to everybody. A route declares this, `scopes`, `portal` or `operator`, or the process does not start. */
    public?: true;
    /** A page or a form of the portal: for who is signed in there with a session that has these scopes. */
    portal?: readonly string[];
    /** For operators of this role only; exists on the operators' listener alone. */
    operator?: OperatorRole;
    /** The tenant's rate that the route counts against; `api` unless it says otherwise. */
    tenantRate?: TenantRate;
    /** The compliance entry that a change by an operator leaves, one of several; every route but their GETs has it. */
    audits?: EntryType | readonly EntryType[];
    /** The route reads the bytes of the body itself (the OAuth endpoints). */
    rawBody?: true;
    /** Somebody else answers: the edge passes the request on and looks at neither query nor body. */
    proxied?: true;
    /** Regions whose tokens the route takes; absent where any will do. Tokens without affinity are good everywhere. */
    regions?: readonly string[];
    /** A missing body counts as one without members. */
    optionalBody?: true;
    /** Body members that keep their own spelling: JSON pointer to deepest nesting (strict-json.ts). */
    opaque?: Readonly<Record<string, number>>;
  }
  interface FastifyRequest {
    /** Set before the handler of every route that declares `scopes`. */
    identity: Identity;
    /** The client's certificate, verified; absent where mutual TLS is not asked for. */
    clientCertificate: ClientCertificate | undefined;
    /** Why there is no certificate where one is required; absent where there is one or none is asked for. */
    clientCertificateProblem: CertificateProblem | undefined;
    /** Where the client is: behind a trusted proxy, what the proxy says, else the other end of the connection. */
    clientAddress: string;
    /** Checks the bytes of the body before they are read; absent where nothing has to be checked. */
    verifyBody: ((body: Uint8Array) => Promise<void>) | undefined;
    /** Set before the handler of every route that declares `operator`. */
    operator: OperatorIdentity;
  }
}
