/** Ends long responses when their caller is no longer admitted (security decisions D: 250 ms after a revocation). */

import { traceFields } from "#observability/tracer.ts";
import type { FastifyReply } from "fastify";
import type { Timers } from "#domain/clock.ts";

/** Interval of the checks, in milliseconds. They read memory, where a revocation arrives within some milliseconds. */
const CHECK_EVERY_MS = 50;

/** Checks that the caller is still admitted; rejects if that is unknown. */
export type IsAdmitted = () => Promise<boolean>;

export interface WhileAdmitted {
  readonly isAdmitted: IsAdmitted;
  readonly timers: Timers;
  /** Called once, when the caller is no longer admitted or (`unknown`) its state cannot be checked. */
  readonly onEnd: (why: "revoked" | "unknown") => void;
  /** Interval of the checks, in milliseconds. */
  readonly everyMs?: number;
}

/**
 * Checks periodically until stopped.
 *
 * @returns function that stops the checks
 */
export function whileAdmitted({
  isAdmitted,
  timers,
  onEnd,
  everyMs = CHECK_EVERY_MS,
}: WhileAdmitted): () => void {
  let state: "idle" | "checking" | "ended" = "idle";
  const stop = (): void => {
    state = "ended";
    timers.cancel(timer);
  };
  const check = async (): Promise<void> => {
    state = "checking";
    const admitted = await isAdmitted().catch(() => undefined);
    if (state !== "checking") {
      // Stopped in the meantime.
      return;
    }
    state = "idle";
    if (admitted !== true) {
      stop();
      onEnd(admitted === undefined ? "unknown" : "revoked");
    }
  };
  const timer = timers.every(everyMs, () => {
    if (state === "idle") {
      void check();
    }
  });
  timer.unref();
  return stop;
}

/** Breaks the connection when the caller is no longer admitted, so that it notices that the response is incomplete. */
export function breakOffUnlessAdmitted(
  reply: FastifyReply,
  { isAdmitted, timers, everyMs }: Omit<WhileAdmitted, "onEnd">,
): void {
  const stop = whileAdmitted({
    isAdmitted,
    timers,
    ...(everyMs === undefined ? {} : { everyMs }),
    onEnd: () => {
      const { id, span, log } = reply.request;
      log.info({ request_id: id, ...traceFields(span) }, "response aborted: caller no longer admitted");
      reply.raw.destroy();
    },
  });
  reply.raw.once("close", stop);
}
