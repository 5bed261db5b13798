/** The operators' API, on a separate listener. */
import { transaction } from "#database/transaction.ts";
import { installRequestMetrics } from "#observability/request-metrics.ts";
import type { OperatorIdentity } from "#domain/identity.ts";
import { InProcessCalls } from "../in-process.ts";
import { collectOpenApi, registerAdminOpenApiRoute } from "../openapi.ts";
import { registerHealthRoutes } from "#http/health.ts";
import { createServer } from "#http/server.ts";
import type { SignetServer } from "#http/types.ts";
import { registerAuditRoutes } from "./audit.ts";
import { registerCredentialRoutes } from "./credentials.ts";
import { registerFind } from "./find.ts";
import { createOperatorGuard } from "./operator-guard.ts";
import { registerKeyEncryptionRoutes } from "./key-encryption.ts";
import { registerOperatorTokenRoutes } from "./operator-tokens.ts";
import { registerOperatorRoutes } from "./operators.ts";
import { createOverview, registerOverview } from "./overview.ts";
import { registerPrincipalRoutes } from "./principals.ts";
import { registerReconciliation } from "./reconciliation.ts";
import { registerRevocationRoutes } from "./revocations.ts";
import { registerRoleRoutes } from "./roles.ts";
import type { AdminServices } from "./services.ts";
import { registerTenantLimitRoutes } from "./tenant-limits.ts";
import { registerTenantPortalRoutes } from "./tenant-portal.ts";
import { registerTenantReads } from "./tenant-reads.ts";
import { registerTenantStateRoutes } from "./tenant-state.ts";
import { registerSigningKeyRoutes } from "./signing-keys.ts";
import { registerTenantRoutes } from "./tenants.ts";
import { registerUsageRoutes } from "./usage.ts";
import { registerWhy } from "./why/why.ts";

/** Builds the operators' API, ready to listen. */
export async function createAdmin(services: AdminServices): Promise<SignetServer> {
  const { baseUrl, access, clients, pool, pepper, clock, randomBytes, log } = services;
  const overview = createOverview(services);
  const calls = new InProcessCalls<OperatorIdentity>();
  const console = services.console?.(services, overview, calls);
  const server = createServer({
    baseUrl,
    guards: {
      operator: createOperatorGuard(access, calls),
      cells: services.cells,
      ...(console === undefined ? {} : { portal: console.guard }),
    },
    clients: calls.clients(clients),
    idempotency: {
      pepper,
      clock,
      randomBytes,
      ownerOf: ({ operator }) => ({
        ownerId: operator.id,
        transact: async (work) => await transaction(pool, work),
      }),
    },
    clock,
    randomBytes,
    log,
  });

  installRequestMetrics(server, "admin");
  await collectOpenApi(server, { address: "/", baseUrl, audience: "operators" });
  registerHealthRoutes(server, []);
  registerTenantRoutes(server, services);
  registerTenantStateRoutes(server, services);
  registerTenantLimitRoutes(server, services);
  registerUsageRoutes(server, services);
  registerReconciliation(server, services);
  registerTenantPortalRoutes(server, services);
  registerRoleRoutes(server, services);
  registerPrincipalRoutes(server, services);
  registerCredentialRoutes(server, services);
  registerRevocationRoutes(server, services);
  registerOperatorRoutes(server, services);
  registerOperatorTokenRoutes(server, services);
  registerOverview(server, overview);
  registerFind(server, services);
  registerWhy(server, services);
  registerTenantReads(server, services);
  registerAuditRoutes(server, services);
  registerSigningKeyRoutes(server, services);
  registerKeyEncryptionRoutes(server, services);
  registerAdminOpenApiRoute(server);
  await console?.register(server);

  await server.ready();
  return server;
}
