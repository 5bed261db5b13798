/** Dependencies of the operators' console. */
import type { FastifyRequest } from "fastify";
import type { FindServices } from "#api/admin/find.ts";
import type { OperatorAccess } from "#api/admin/operator-guard.ts";
import type { Overview } from "#api/schemas/overview.ts";
import type { WhyServices } from "#api/admin/why/why.ts";
import type { InProcessCalls } from "#api/in-process.ts";
import type { OperatorIdentity } from "#domain/identity.ts";
import type { SignetServer } from "#http/types.ts";
import type { OperatorSession, OperatorSessions } from "#tokens/operators/operator-sessions.ts";
import type { PageOptions } from "../context.ts";

export interface ConsoleOptions extends Omit<PageOptions, "sessions" | "exportDeadLetters" | "portalUrl"> {
  readonly operators: OperatorSessions;
  readonly access: OperatorAccess;
  /** The public API, which the pages call. */
  readonly api: () => SignetServer;
  /** Calls of the operators' API, which revoke and hold. */
  readonly operatorCalls: InProcessCalls<OperatorIdentity>;
  readonly overview: () => Promise<Overview>;
  readonly services: FindServices & WhyServices;
}

declare module "fastify" {
  interface FastifyRequest {
    /** Set before the handler of every page of the operators' console. */
    operatorSession: OperatorSession;
  }
}

/** Returns the origin under which the browser sent a request. */
export function originOf({ protocol, headers }: FastifyRequest): string {
  return `${protocol}://${headers.host ?? ""}`;
}
