/** The operators' API, on a listener of its own: what it serves, in order. */
import { registerHealthRoutes } from "../routes/health.ts";
import { createServer } from "../server.ts";
import type { SignetServer } from "../types.ts";
import { registerCredentialRoutes } from "./credentials.ts";
import { createOperatorGuard } from "./operator-guard.ts";
import { registerPrincipalRoutes } from "./principals.ts";
import { registerRoleRoutes } from "./roles.ts";
import type { AdminServices } from "./services.ts";
import { registerTenantRoutes } from "./tenants.ts";

/** Builds the operators' API, ready to listen. */
export async function createAdmin(services: AdminServices): Promise<SignetServer> {
  const { baseUrl, operatorToken, clock, randomBytes, log } = services;
  const { server } = createServer({
    baseUrl,
    guards: { operator: createOperatorGuard(operatorToken) },
    clock,
    randomBytes,
    log,
  });

  registerHealthRoutes(server, []);
  registerTenantRoutes(server, services);
  registerRoleRoutes(server, services);
  registerPrincipalRoutes(server, services);
  registerCredentialRoutes(server, services);

  await server.ready();
  return server;
}
