import type { FastifyReply, FastifyRequest } from "fastify";

/**
 * Admits a request with a known identity: checks its tenant's rate, and the scopes and regions of its route. Returns a
 * promise only if something must be read first.
 *
 * @throws SignetError, or rejects with one
 */
export type AdmitRequest = (
  request: FastifyRequest,
  reply: FastifyReply,
  required: readonly string[],
) => void | Promise<void>;
