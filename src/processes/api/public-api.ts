/** The public API: registers each file of routes in order. Each route declares its scopes. */
import { rotationRules } from "#config/rotation-settings.ts";
import { createRandomPool } from "#crypto/random-pool.ts";
import { tenantTransaction } from "#database/transaction.ts";
import { isAway } from "#domain/regions.ts";
import type { ClientIdentification } from "#http/mutual-tls/client-identification.ts";
import { installRequestMetrics } from "#observability/request-metrics.ts";
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
import { registerOAuthRoutes } from "#api/routes/oauth.ts";
import { registerPortalLinks } from "#api/routes/portal-links.ts";
import { registerRootRoute } from "#api/routes/root.ts";
import { registerStatusListRoutes } from "#api/routes/status-lists.ts";
import { registerWebhookRoutes, type WebhookServices } from "#api/routes/webhooks.ts";
import { createServer } from "#http/server.ts";
import type { SignetServer } from "#http/types.ts";
import type { OAuth } from "./oauth.ts";
import type { ApiProcessServices } from "./services.ts";
import type { Tokens } from "./tokens.ts";

/** What the public API has beside the collaborators of its process. */
export interface PublicApiServices {
  readonly clients: ClientIdentification;
  readonly oauth: OAuth;
  readonly webhooks: WebhookServices;
  readonly tokens: Tokens;
  /** Authentication of signed producers. */
  readonly producers: ProducerAuthenticator;
  readonly readiness: readonly ReadinessCheck[];
}

function lookupsOf({ config, timers }: ApiProcessServices): FruitlessLookups {
  return new FruitlessLookups(config.tokenRatePerAddress, timers.monotonic);
}

function portalOptions(services: ApiProcessServices, { tokens, webhooks }: PublicApiServices) {
  const { config, pools, calls, brands, clock, timers, randomBytes } = services;
  return {
    sessions: new PortalSessions({
      pool: pools.api,
      lookups: lookupsOf(services),
      isAdmitted: tokens.isAdmitted,
      away: isAway(services.cells),
      clock,
      randomBytes,
    }),
    calls,
    urlProblem: (url: string) => webhooks.endpoints.urlProblem(url),
    exportDeadLetters: webhooks.exportDeadLetters,
    streaming: { streams: webhooks.streams, clock, timers },
    headerBrand: config.headerBrand,
    brands,
    frameOrigins: config.portalFrameOrigins ?? [],
    portalUrl: config.portalUrl ?? config.publicUrl,
    temporal: services.temporalUi,
    development: config.development,
  };
}

function registerRevocations(server: SignetServer, services: ApiProcessServices): void {
  const { config, pools, pepper, keyring } = services;
  const leaks = { pepper, keyring, issuer: config.publicUrl, keys: pools.issuer };
  registerCredentialRevocation(server, pools.api, services);
  registerLeakRevocation(server, { pool: pools.api, leaks, revocation: services });
}

function registerDocumentation(server: SignetServer, services: ApiProcessServices, brand: Brand): void {
  const { config, temporalUi, clock } = services;
  registerOpenApiRoute(server);
  registerApiReference(server);
  registerGuide(server);
  const page = config.development ? createDevelopmentPage(brand, temporalUi, clock) : undefined;
  registerRootRoute(server, config.publicUrl, page);
}

function registerCredentials(server: SignetServer, services: ApiProcessServices): void {
  const { config, pools, pepper, keyring, tenantLimits, receipts, clock, randomBytes } = services;
  const { api: pool } = pools;
  registerCredentialRoutes(server, {
    pool,
    credentialsMax: async (tenantId) =>
      (await tenantLimits.policyOf(tenantId)).limits.credentials_per_principal,
    pepper,
    rules: rotationRules(config),
    certificatesRequired: config.mtlsMode !== "off",
    assertionAlgorithms: config.clientAssertionAlgs,
    clock,
    randomBytes,
  });
  registerProducerSecretRoutes(server, { pool, keyring, pepper, receipts, clock, randomBytes });
}

/** Builds the public API without listening. */
export async function createApi(
  services: ApiProcessServices,
  parts: PublicApiServices,
): Promise<SignetServer> {
  const { config, clock, timers, randomBytes, log, pools, pepper, calls } = services;
  const { oauth, tokens, webhooks } = parts;
  const admit = createAdmission(services.tenantLimits, services.cells);
  const ingress = new IngressValidator(parts.producers, admit);
  const portal = portalOptions(services, parts);
  const binding = { bindingRequired: !config.development };
  const scopes = calls.guard(createScopeGuard({ verify: tokens.admit, binding, admit, ingress }), admit);
  const server = createServer({
    baseUrl: config.publicUrl,
    guards: {
      scopes,
      signatures: (required) => ingress.guard(required),
      portal: createPortalGuard(() => server, portal),
      cells: services.cells,
      open: new PublicRate(config.publicRatePerAddress, timers.monotonic),
    },
    clients: calls.clients(parts.clients),
    idempotency: {
      pepper,
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
  registerHealthRoutes(server, parts.readiness);
  registerErrorTypeRoutes(server, createErrorPages(portal.brands.installation));
  registerOAuthRoutes(server, oauth, scopes);
  registerStatusListRoutes(server, oauth.statusDocuments);
  registerEndpointKeyRoutes(server, { pool: pools.issuer, lookups: lookupsOf(services), clock });
  registerCredentials(server, services);
  registerRevocations(server, services);
  registerWebhookRoutes(server, webhooks, tokens.isAdmitted);
  registerDeliveryStream(server, portal.streaming, tokens.isAdmitted);
  registerComplianceRoutes(server, pools.api);
  registerPortalLinks(server, portal.sessions, portal.portalUrl);
  registerDocumentation(server, services, portal.brands.installation);
  await registerPortal(server, portal);

  await server.ready();
  return server;
}
