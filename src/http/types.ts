/** The types that all routes use: the server with its type provider, and the additions to requests. */
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
import type { EntryType } from "#compliance/entry-types.ts";
import type { OperatorRole } from "#domain/operator-roles.ts";
import type { Identity } from "#domain/identity.ts";
import type { TenantRate } from "./rate-limits/tenant-limits.ts";
import type { OperatorIdentity } from "#domain/identity.ts";

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
    /** Scopes that the token must have, all of them; an empty list requires only a valid token. */
    scopes?: readonly string[];
    /** The route is public. Every route must declare this, `scopes`, `portal` or `operator`. */
    public?: true;
    /** A portal page or form, for sessions with these scopes. */
    portal?: readonly string[];
    /** Role that the operator must have; only on the operators' listener. */
    operator?: OperatorRole;
    /** Rate limit of the tenant that applies; `api` by default. */
    tenantRate?: TenantRate;
    /** Possible types of the compliance entries of an operator's change; required for operator routes except GETs. */
    audits?: EntryType | readonly EntryType[];
    /** The route parses the bytes of the body itself (the OAuth endpoints). */
    rawBody?: true;
    /** The edge forwards the request to an upstream, without checking its query and body. */
    proxied?: true;
    /** Regions whose tokens the route accepts; absent for any. Tokens without a region are valid everywhere. */
    regions?: readonly string[];
    /** Only the home cell serves the route: it concerns identities, revocations or the compliance log (decision 35). */
    home?: true;
    /** A missing body counts as an empty object. */
    optionalBody?: true;
    /** Opaque body members: maximum nesting depth by JSON pointer (strict-json.ts). */
    opaque?: Readonly<Record<string, number>>;
  }
  interface FastifyRequest {
    /** Set before the handler of every route that declares `scopes`. */
    identity: Identity;
    /** The client's verified certificate; absent without mutual TLS. */
    clientCertificate: ClientCertificate | undefined;
    /** Why a required certificate is missing; absent if there is one or none is required. */
    clientCertificateProblem: CertificateProblem | undefined;
    /** Address of the client, from a trusted proxy or otherwise from the connection. */
    clientAddress: string;
    /** Verifies the bytes of the body before they are parsed; absent if no check is needed. */
    verifyBody: ((body: Uint8Array) => Promise<void>) | undefined;
    /** Set before the handler of every route that declares `operator`. */
    operator: OperatorIdentity;
  }
}
