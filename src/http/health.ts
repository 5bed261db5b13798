import { SignetError } from "#domain/errors.ts";
import { failedChecks, type ReadinessCheck, readinessNotes } from "#runtime/readiness.ts";
import type { SignetServer } from "./types.ts";

/** Registers `/healthz` (the process runs) and `/readyz` (its dependencies work too). */
export function registerHealthRoutes(server: SignetServer, checks: readonly ReadinessCheck[]): void {
  server.get("/healthz", { config: { public: true }, schema: { hide: true } }, (_request, reply) =>
    reply.header("cache-control", "no-store").send({ status: "ok" }),
  );
  server.get("/readyz", { config: { public: true }, schema: { hide: true } }, async (_request, reply) => {
    const failures = await failedChecks(checks);
    if (failures.length > 0) {
      const failing = failures.map(({ name }) => name);
      throw new SignetError("UNAVAILABLE", {
        detail: `Not ready: ${failing.join(", ")}.`,
        extensions: { failing },
        headers: { "retry-after": "1" },
        cause: new AggregateError(failures.map(({ error }) => error)),
      });
    }
    return await reply
      .header("cache-control", "no-store")
      .send({ status: "ready", ...readinessNotes(checks) });
  });
}
