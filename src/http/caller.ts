import type { FastifyRequest } from "fastify";
import type { By } from "#compliance/append-entry.ts";

/** Returns the credential of a tenant's request as the actor of compliance entries. */
export function callerOf({ identity, id: requestId }: FastifyRequest): By {
  return { actor: `credential:${identity.credentialId}`, requestId };
}
