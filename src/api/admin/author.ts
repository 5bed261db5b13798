import type { FastifyRequest } from "fastify";
import { operatorActor } from "../../operators/operator-identity.ts";
import type { Author } from "../../signing-keys/rotate.ts";

/** Who asks, for the compliance log. */
export function authorOf({ operator, id: requestId }: Pick<FastifyRequest, "operator" | "id">): Author & {
  readonly requestId: string;
} {
  return { actor: operatorActor(operator.id), requestId };
}
