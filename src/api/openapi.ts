/** The OpenAPI description, made from the schemas of the routes. */
import swagger from "@fastify/swagger";
import type { FastifyContextConfig } from "fastify";
import type { SignetServer } from "./types.ts";

/** What the description says of who may call a route. */
function declarations({ scopes, operator, audits }: FastifyContextConfig) {
  if (operator !== undefined) {
    return {
      security: [{ operator: [] }],
      "x-operator-role": operator,
      ...(audits === undefined ? {} : { "x-audits": audits }),
    };
  }
  return scopes === undefined ? {} : { security: [{ bearer: [...scopes] }] };
}

/**
 * Collects the routes that are registered after this call.
 *
 * @param address what the paths are below; relative for a server that does not know how it is reached
 */
export async function collectOpenApi(server: SignetServer, address: string): Promise<void> {
  await server.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: { title: "Signet", version: "1", description: "Short-lived signed tokens and signed webhooks." },
      servers: [{ url: address }],
      components: {
        securitySchemes: {
          bearer: { type: "http", scheme: "bearer", bearerFormat: "JWT" },
          operator: { type: "http", scheme: "bearer" },
        },
      },
    },
    transform: ({ schema, url, route }) => ({
      url,
      schema: { ...schema, ...declarations(route.config ?? {}) },
    }),
  });
}

/** `/openapi.json`. */
export function registerOpenApiRoute(server: SignetServer): void {
  server.get("/openapi.json", { config: { public: true }, schema: { hide: true } }, () => server.swagger());
}

/** `/admin/v1/openapi.json`, for operators. */
export function registerAdminOpenApiRoute(server: SignetServer): void {
  server.get(
    "/admin/v1/openapi.json",
    { config: { operator: "read" }, schema: { tags: ["operators"] } },
    () => server.swagger(),
  );
}
