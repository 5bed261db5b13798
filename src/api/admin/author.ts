import type { FastifyRequest } from "fastify";
import { operatorActor } from "#tokens/operators/operator-identity.ts";
import type { Author } from "#tokens/signing-keys/rotate.ts";

/** Returns the author of a request, for the compliance log. */
export function authorOf({ operator, id: requestId }: Pick<FastifyRequest, "operator" | "id">): Author & {
  readonly requestId: string;
} {
  return { actor: operatorActor(operator.id), requestId };
}
