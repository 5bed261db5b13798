import { SignetError } from "../../errors.ts";
import type { SignetServer } from "../types.ts";

/** One thing that must work before the process is of use. */
export interface ReadinessCheck {
  readonly name: string;
  /** Rejects when it does not work; the reason goes to the log, not to the caller. */
  readonly check: () => Promise<unknown>;
}

const CHECK_TIMEOUT_MS = 2_000;

async function failureOf({ check }: ReadinessCheck): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${CHECK_TIMEOUT_MS} ms`)), CHECK_TIMEOUT_MS);
  });
  try {
    await Promise.race([check(), timeout]);
    return undefined;
  } catch (error) {
    return error;
  } finally {
    clearTimeout(timer);
  }
}

/** `/healthz`: the process runs. `/readyz`: what it depends on works too. */
export function registerHealthRoutes(server: SignetServer, checks: readonly ReadinessCheck[]): void {
  server.get("/healthz", { config: { public: true }, schema: { hide: true } }, (_request, reply) =>
    reply.header("cache-control", "no-store").send({ status: "ok" }),
  );
  server.get("/readyz", { config: { public: true }, schema: { hide: true } }, async (_request, reply) => {
    const failures = await Promise.all(checks.map(failureOf));
    const failing = checks.map(({ name }) => name).filter((_name, index) => failures[index] !== undefined);
    if (failing.length > 0) {
      throw new SignetError("UNAVAILABLE", {
        detail: `Not usable: ${failing.join(", ")}.`,
        extensions: { failing },
        headers: { "retry-after": "1" },
        cause: new AggregateError(failures.filter((failure) => failure !== undefined)),
      });
    }
    return await reply.header("cache-control", "no-store").send({ status: "ready" });
  });
}
