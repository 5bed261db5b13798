/** Idempotent changes by operators. */
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Pool, PoolClient } from "#database/pool.ts";
import { transaction } from "#database/transaction.ts";
import { answerOnce, repeatableRequest, type RepeatableServices } from "#http/repeatable.ts";

export interface OnceServices extends RepeatableServices {
  /** Pool with the role signet_operator. */
  readonly pool: Pool;
}

/**
 * Runs the work of a request in a transaction. A repeated POST with the same Idempotency-Key changes nothing and gets
 * the stored response, with `Idempotent-Replayed`.
 *
 * @throws SignetError `IDEMPOTENCY_KEY_REUSED`, `CONFLICT` (see `answerOnce`), and the errors of the work
 */
export async function changeOnce<Answer>(
  request: FastifyRequest,
  reply: Pick<FastifyReply, "header">,
  { pool, ...services }: OnceServices,
  work: (db: PoolClient) => Promise<Answer>,
): Promise<Answer> {
  const repeatable = repeatableRequest(request, request.operator.id);
  const { answer, replayed } = await transaction(
    pool,
    async (db) => await answerOnce(db, repeatable, services, async () => await work(db)),
  );
  if (replayed) {
    reply.header("idempotent-replayed", "true");
  }
  return answer;
}
