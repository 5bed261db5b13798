/** The OpenAPI description, made from the schemas of the routes. */
import swagger from "@fastify/swagger";
import type { SignetServer } from "./types.ts";

/** Collects the routes that are registered after this call. */
export async function collectOpenApi(server: SignetServer, publicUrl: string): Promise<void> {
  await server.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: { title: "Signet", version: "1", description: "Short-lived signed tokens and signed webhooks." },
      servers: [{ url: publicUrl }],
      components: { securitySchemes: { bearer: { type: "http", scheme: "bearer", bearerFormat: "JWT" } } },
    },
    transform: ({ schema, url, route }) => {
      const scopes = route.config?.scopes;
      return {
        url,
        schema: scopes === undefined ? schema : { ...schema, security: [{ bearer: [...scopes] }] },
      };
    },
  });
}

/** `/openapi.json`. */
export function registerOpenApiRoute(server: SignetServer): void {
  server.get("/openapi.json", { config: { public: true }, schema: { hide: true } }, () => server.swagger());
}
