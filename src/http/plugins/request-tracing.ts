/** Creates a span for each request of an api or an edge if tracing is on; otherwise installs no hook. */
import { tracer } from "#observability/tracing.ts";
import type { TracedSpan } from "#observability/tracer.ts";
import type { SignetServer } from "../types.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Undefined if tracing is off. */
    span: TracedSpan | undefined;
  }
}

/** Installs the hooks. */
export function installRequestTracing(server: SignetServer): void {
  server.decorateRequest("span");
  const spans = tracer();
  if (spans === undefined) {
    return;
  }
  server.addHook("onRequest", (request, _reply, done) => {
    const route = request.routeOptions.url ?? "none";
    const { traceparent } = request.headers;
    request.span = spans.start({
      name: `${request.method} ${route}`,
      kind: "server",
      attributes: {
        "http.request.method": request.method,
        "http.route": route,
        "signet.request_id": request.id,
      },
      parents: [typeof traceparent === "string" ? traceparent : undefined],
    });
    done();
  });
  server.addHook("onResponse", (request, reply, done) => {
    const { statusCode } = reply;
    const tenantId = request.identity?.tenantId;
    request.span?.end(
      {
        "http.response.status_code": statusCode,
        ...(tenantId === undefined ? {} : { "signet.tenant_id": tenantId }),
      },
      statusCode >= 500 ? String(statusCode) : undefined,
    );
    done();
  });
}
