/** Changes that operators make once, however often they send them. */
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Pool, PoolClient } from "../../database/pool.ts";
import { transaction } from "../../database/transaction.ts";
import { answerOnce, repeatableRequest, type RepeatableServices } from "../../http/repeatable.ts";

export interface OnceServices extends RepeatableServices {
  /** Role signet_operator. */
  readonly pool: Pool;
}

/**
 * Does the work of a request in a transaction. A POST that comes again with its Idempotency-Key is answered as before,
 * with `Idempotent-Replayed`, and changes nothing.
 *
 * @throws SignetError `IDEMPOTENCY_KEY_REUSED`, `CONFLICT` (see `answerOnce`), and what the work rejects with
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
