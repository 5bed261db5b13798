/** The portal's registered routes, for tests that visit all of them. */
import { fastify } from "fastify";
import { InProcessCalls } from "../../src/api/in-process.ts";
import type { StreamingServices } from "../../src/api/delivery-stream.ts";
import type { SignetServer } from "../../src/http/types.ts";
import { PortalBrands } from "../../src/portal/brand.ts";
import { registerPortal } from "../../src/portal/portal.ts";
import type { PortalSessions } from "../../src/tokens/portal-sessions.ts";

export interface PortalRoute {
  readonly method: string;
  /** URL with `:name` for parameters. */
  readonly url: string;
  /** Required scopes of the session. */
  readonly scopes: readonly string[];
  /** Names of the form's fields. */
  readonly fields: readonly string[];
}

/** Returns every route that requires a session. */
export async function collectPortalRoutes(): Promise<readonly PortalRoute[]> {
  const routes: PortalRoute[] = [];
  const server = fastify() as unknown as SignetServer;
  server.addHook("onRoute", ({ method, url, config, schema }) => {
    if (config?.portal !== undefined) {
      const body = schema?.body as { properties?: object } | undefined;
      const fields = Object.keys(body?.properties ?? {});
      for (const one of [method].flat().filter((name) => name !== "HEAD")) {
        routes.push({ method: one, url, scopes: config.portal, fields });
      }
    }
  });
  await registerPortal(server, {
    sessions: {} as PortalSessions,
    calls: new InProcessCalls(),
    streaming: {} as StreamingServices,
    headerBrand: "Service",
    exportDeadLetters: async () => await Promise.reject(new Error("no route is called")),
    urlProblem: () => undefined,
    brands: new PortalBrands({
      settings: {},
      find: async () => await Promise.resolve({}),
      monotonic: () => 0,
    }),
    frameOrigins: [],
    portalUrl: "http://portal.test",
    temporal: {
      uiUrl: undefined,
      reportsProblems: async () => await Promise.resolve(false),
      namespace: "signet",
    },
    development: true,
  });
  await server.close();
  return routes;
}
