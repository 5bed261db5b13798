/** The public API: registers each file of routes in order. Each route declares its scopes. */
import type { Config } from "#config/config.ts";
import type { Keyring } from "#crypto/keyring.ts";
import { createRandomPool } from "#crypto/random-pool.ts";
import type { Pool } from "#database/pool.ts";
import { tenantTransaction } from "#database/transaction.ts";
import type { Clock } from "#domain/clock.ts";
import { machineTimers } from "#runtime/machine-timers.ts";
import { type Cells, isAway } from "#domain/regions.ts";
import type { RandomBytes } from "#domain/ids.ts";
import type { ClientIdentification } from "#http/mutual-tls/client-identification.ts";
import type { Logger } from "#observability/logger.ts";
import { installRequestMetrics } from "#observability/request-metrics.ts";
import type { VerifyToken } from "#tokens/oauth/verify-access-token.ts";
import type { ProducerAuthenticator } from "#tokens/producers/authenticate-producer.ts";
import type { ReadinessCheck } from "#runtime/readiness.ts";
import type { Brand } from "#portal/brand.ts";
import { createDevelopmentPage } from "#portal/development-page.ts";
import { createErrorPages } from "#portal/error-pages.ts";
import { registerGuide } from "#portal/guide/guide.ts";
import { createPortalGuard, registerPortal } from "#portal/portal.ts";
import { PortalSessions } from "#tokens/portal-sessions.ts";
import { FruitlessLookups } from "#http/rate-limits/fruitless-lookups.ts";
import { PublicRate } from "#http/rate-limits/public-rate.ts";
import type { TenantLimits } from "#http/rate-limits/tenant-limits.ts";
import type { InProcessCalls } from "#api/in-process.ts";
import { collectOpenApi, registerOpenApiRoute } from "#api/openapi.ts";
import { installRequestTracing } from "#http/plugins/request-tracing.ts";
import { createAdmission, createScopeGuard } from "#tokens/guards/authentication.ts";
import { IngressValidator } from "#tokens/guards/ingress-validator.ts";
import { registerApiReference } from "#api/routes/api-reference.ts";
import { registerComplianceRoutes } from "#api/routes/compliance.ts";
import { registerCredentialRevocation, registerLeakRevocation } from "#api/routes/credential-revocation.ts";
import { registerCredentialRoutes } from "#api/routes/credentials.ts";
import { registerProducerSecretRoutes } from "#api/routes/producer-secrets.ts";
import { registerDeliveryStream } from "#api/routes/delivery-stream.ts";
import { registerEndpointKeyRoutes } from "#api/routes/endpoint-keys.ts";
import { registerErrorTypeRoutes } from "#api/routes/error-types.ts";
import { registerHealthRoutes } from "#http/health.ts";
import { type OAuthServices, registerOAuthRoutes } from "#api/routes/oauth.ts";
import { registerPortalLinks } from "#api/routes/portal-links.ts";
import { registerRootRoute } from "#api/routes/root.ts";
import { registerStatusListRoutes, type StatusListServices } from "#api/routes/status-lists.ts";
import { registerWebhookRoutes, type WebhookServices } from "#api/routes/webhooks.ts";
import type { RevocableToken } from "#revocation/deny-list.ts";
import type { RevocationServices } from "#revocation/receipts.ts";
import type { OwnEventServices } from "#webhooks/ingest/own-event.ts";
import type { TemporalUi } from "#temporal/views.ts";
import type { TokenStatusServices } from "#api/routes/token-status.ts";
import type { CredentialIssuing } from "#api/replace-credential.ts";
import type { PortalBrands } from "#portal/brand.ts";
import { createServer } from "#http/server.ts";
import type { BrandSettings } from "./portal-brands.ts";
import type { SignetServer } from "#http/types.ts";

/** Dependencies of the public API. */
export interface ApiServices {
  readonly config: Pick<
    Config,
    | "publicUrl"
    | "portalUrl"
    | "headerBrand"
    | "development"
    | keyof BrandSettings
    | "portalFrameOrigins"
    | "tokenRatePerAddress"
    | "publicRatePerAddress"
  >;
  readonly clients: ClientIdentification;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
  /** Pools by database role: PostgreSQL decides what a route may touch. */
  readonly pools: {
    /** signet_api, with row-level security by tenant. */
    readonly api: Pool;
    /** signet_issuer: sees only the public keys of endpoints. */
    readonly issuer: Pool;
  };
  readonly oauth: OAuthServices & { readonly statusDocuments: Omit<StatusListServices, "lookups"> };
  /** Creation of credentials. */
  readonly credentials: CredentialIssuing;
  readonly webhooks: WebhookServices;
  /** Admission and revocation of tokens. */
  readonly tokens: {
    readonly admit: VerifyToken;
    readonly isAdmitted: (identity: RevocableToken) => Promise<boolean>;
    /** For introspection of tokens for any resource. */
    readonly status: Pick<TokenStatusServices, "verify" | "admit" | "revoke">;
  };
  readonly revocation: RevocationServices & OwnEventServices;
  readonly tenantLimits: TenantLimits;
  /** Set if regions have cells of their own. */
  readonly cells?: Cells | undefined;
  /** Authentication of signed producers. */
  readonly producers: ProducerAuthenticator;
  /** Seals signing secrets. */
  readonly keyring: Keyring;
  readonly readiness: readonly ReadinessCheck[];
  /** Calls by pages: of the portal, and of the operators' console on the other listener. */
  readonly calls: InProcessCalls;
  /** Names, colours and logos of both sets of pages. */
  readonly brands: PortalBrands;
  readonly temporalUi: TemporalUi;
}

function lookupsOf({ tokenRatePerAddress }: ApiServices["config"]): FruitlessLookups {
  return new FruitlessLookups(tokenRatePerAddress, machineTimers.monotonic);
}

function portalOptions(services: ApiServices) {
  const { config, pools, tokens, calls, brands, clock, randomBytes } = services;
  return {
    sessions: new PortalSessions({
      pool: pools.api,
      lookups: lookupsOf(config),
      isAdmitted: tokens.isAdmitted,
      away: isAway(services.cells),
      clock,
      randomBytes,
    }),
    calls,
    urlProblem: (url: string) => services.webhooks.endpoints.urlProblem(url),
    exportDeadLetters: services.webhooks.exportDeadLetters,
    streaming: { streams: services.webhooks.streams, clock, timers: machineTimers },
    headerBrand: config.headerBrand,
    brands,
    frameOrigins: config.portalFrameOrigins ?? [],
    portalUrl: config.portalUrl ?? config.publicUrl,
    temporal: services.temporalUi,
    development: config.development,
  };
}

function registerRevocations(
  server: SignetServer,
  { config, pools, credentials: { pepper }, keyring, revocation }: ApiServices,
): void {
  const leaks = { pepper, keyring, issuer: config.publicUrl, keys: pools.issuer };
  registerCredentialRevocation(server, pools.api, revocation);
  registerLeakRevocation(server, { pool: pools.api, leaks, revocation });
}

function registerDocumentation(server: SignetServer, services: ApiServices, brand: Brand): void {
  const { config, temporalUi, clock } = services;
  registerOpenApiRoute(server);
  registerApiReference(server);
  registerGuide(server);
  const page = config.development ? createDevelopmentPage(brand, temporalUi, clock) : undefined;
  registerRootRoute(server, config.publicUrl, page);
}

function registerCredentials(server: SignetServer, services: ApiServices): void {
  const { pools, clock, randomBytes } = services;
  registerCredentialRoutes(server, {
    ...services.credentials,
    pool: pools.api,
    credentialsMax: async (tenantId) =>
      (await services.tenantLimits.policyOf(tenantId)).limits.credentials_per_principal,
    clock,
    randomBytes,
  });
  registerProducerSecretRoutes(server, {
    pool: pools.api,
    keyring: services.keyring,
    pepper: services.credentials.pepper,
    receipts: services.revocation.receipts,
    clock,
    randomBytes,
  });
}

/** Builds the public API without listening. */
export async function createApi(services: ApiServices): Promise<SignetServer> {
  const { config, clock, randomBytes, log, pools, calls } = services;
  const admit = createAdmission(services.tenantLimits, services.cells);
  const ingress = new IngressValidator(services.producers, admit);
  const portal = portalOptions(services);
  const binding = { bindingRequired: !config.development };
  const scopes = calls.guard(
    createScopeGuard({ verify: services.tokens.admit, binding, admit, ingress }),
    admit,
  );
  const server = createServer({
    baseUrl: config.publicUrl,
    guards: {
      scopes,
      signatures: (required) => ingress.guard(required),
      portal: createPortalGuard(() => server, portal),
      cells: services.cells,
      open: new PublicRate(config.publicRatePerAddress, machineTimers.monotonic),
    },
    clients: calls.clients(services.clients),
    idempotency: {
      pepper: services.credentials.pepper,
      clock,
      randomBytes,
      // Keys are scoped to a principal: another principal must not see this one's answers.
      ownerOf: ({ identity: { tenantId, principalId } }) => ({
        ownerId: tenantId,
        author: principalId,
        transact: async (work) => await tenantTransaction(pools.api, tenantId, work),
      }),
    },
    clock,
    randomBytes: createRandomPool(),
    log,
  });

  installRequestMetrics(server, "public");
  installRequestTracing(server);
  await collectOpenApi(server, {
    address: config.publicUrl,
    baseUrl: config.publicUrl,
    audience: "tenants",
  });
  registerHealthRoutes(server, services.readiness);
  registerErrorTypeRoutes(server, createErrorPages(portal.brands.installation));
  registerOAuthRoutes(server, { ...services.oauth, ...services.tokens.status }, scopes);
  registerStatusListRoutes(server, { ...services.oauth.statusDocuments, lookups: lookupsOf(config) });
  registerEndpointKeyRoutes(server, { pool: pools.issuer, lookups: lookupsOf(config), clock });
  registerCredentials(server, services);
  registerRevocations(server, services);
  registerWebhookRoutes(server, services.webhooks, services.tokens.isAdmitted);
  registerDeliveryStream(server, portal.streaming, services.tokens.isAdmitted);
  registerComplianceRoutes(server, pools.api);
  registerPortalLinks(server, portal.sessions, portal.portalUrl);
  registerDocumentation(server, services, portal.brands.installation);
  await registerPortal(server, portal);

  await server.ready();
  return server;
}
