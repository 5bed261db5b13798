import type { FastifyRequest } from "fastify";
import type { By } from "../compliance/append-entry.ts";

/** The credential behind a tenant's request, as compliance entries name it. */
export function callerOf({ identity, id: requestId }: FastifyRequest): By {
  return { actor: `credential:${identity.credentialId}`, requestId };
}
