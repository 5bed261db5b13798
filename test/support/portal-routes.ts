/** The portal's routes as they are registered, for tests that walk all of them. */
import { fastify } from "fastify";
import { InProcessCalls } from "../../src/api/in-process.ts";
import type { StreamingServices } from "../../src/api/delivery-stream.ts";
import type { SignetServer } from "../../src/http/types.ts";
import { registerPortal } from "../../src/portal/portal.ts";
import type { PortalSessions } from "../../src/tokens/portal-sessions.ts";

export interface PortalRoute {
  readonly method: string;
  /** With `:name` for parameters. */
  readonly url: string;
  /** What a session must hold. */
  readonly scopes: readonly string[];
  /** Names of the form's fields. */
  readonly fields: readonly string[];
}

/** Every route that asks for a session. */
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
    portalUrl: "http://portal.test",
    temporal: { uiUrl: undefined, namespace: "signet" },
    development: true,
  });
  await server.close();
  return routes;
}
