/** The portal's registered routes, for tests that visit all of them. */
import { fastify, type FastifyContextConfig } from "fastify";
import { InProcessCalls } from "#api/in-process.ts";
import type { StreamingServices } from "#api/delivery-stream.ts";
import type { SignetServer } from "#http/types.ts";
import { PortalBrands } from "#portal/brand.ts";
import type { OperatorAccess } from "#api/admin/operator-guard.ts";
import type { OperatorIdentity } from "#domain/identity.ts";
import type { ConsoleOptions } from "#portal/operator/console-options.ts";
import { registerConsole } from "#portal/operator/console.ts";
import { registerPortal } from "#portal/portal.ts";
import type { OperatorSessions } from "#tokens/operators/operator-sessions.ts";
import type { PortalSessions } from "#tokens/portal-sessions.ts";

export interface PortalRoute {
  readonly method: string;
  /** URL with `:name` for parameters. */
  readonly url: string;
  /** Required scopes of the session. */
  readonly scopes: readonly string[];
  /** Names of the form's fields. */
  readonly fields: readonly string[];
}

/** Dependencies of pages that no test asks for. */
const PAGES = {
  calls: new InProcessCalls(),
  streaming: {} as StreamingServices,
  headerBrand: "Service",
  urlProblem: () => undefined,
  brands: new PortalBrands({
    settings: {},
    find: async () => await Promise.resolve({}),
    monotonic: () => 0,
  }),
  frameOrigins: [],
  temporal: {
    uiUrl: undefined,
    reportsProblems: async () => await Promise.resolve(false),
    namespace: "signet",
  },
  development: true,
} as const;

async function collect(
  register: (server: SignetServer) => Promise<void>,
  wanted: (config: FastifyContextConfig) => boolean,
): Promise<readonly PortalRoute[]> {
  const routes: PortalRoute[] = [];
  const server = fastify() as unknown as SignetServer;
  server.addHook("onRoute", ({ method, url, config, schema }) => {
    if (config !== undefined && wanted(config)) {
      const body = schema?.body as { properties?: object } | undefined;
      const fields = Object.keys(body?.properties ?? {});
      for (const one of [method].flat().filter((name) => name !== "HEAD")) {
        routes.push({ method: one, url, scopes: config.portal ?? [], fields });
      }
    }
  });
  await register(server);
  await server.close();
  return routes;
}

/** Returns every route of the tenants' portal that requires a session. */
export async function collectPortalRoutes(): Promise<readonly PortalRoute[]> {
  return await collect(
    async (server) =>
      await registerPortal(server, {
        ...PAGES,
        sessions: {} as PortalSessions,
        exportDeadLetters: async () => await Promise.reject(new Error("no route is called")),
        portalUrl: "http://portal.test",
      }),
    ({ portal }) => portal !== undefined,
  );
}

/** Returns the operators' console's own routes, also those without a session. */
export async function collectConsoleRoutes(): Promise<readonly PortalRoute[]> {
  return await collect(
    async (server) =>
      await registerConsole(server, {
        ...PAGES,
        operators: {} as OperatorSessions,
        access: {} as OperatorAccess,
        api: () => server,
        operatorCalls: new InProcessCalls<OperatorIdentity>(),
        overview: async () => await Promise.reject(new Error("no route is called")),
        services: {} as ConsoleOptions["services"],
      }),
    ({ portal, public: open }) => open === true || portal?.includes("operator:read") === true,
  );
}
