/** Answers that take long go on no longer than their caller is let in (security decisions D: 250 ms after a revocation). */

import type { FastifyReply } from "fastify";

/** Milliseconds between two looks. The look is into memory, which hears of a revocation within some milliseconds itself. */
const LOOK_EVERY_MS = 50;

/** Whether the caller may still have what it asked for; rejects when nobody can say. */
export type IsAdmitted = () => Promise<boolean>;

export interface WhileAdmitted {
  readonly isAdmitted: IsAdmitted;
  /** Called once: the caller is let in no longer, or (`unknown`) nobody can say whether it is. */
  readonly onEnd: (why: "revoked" | "unknown") => void;
  /** Milliseconds between two looks. */
  readonly everyMs?: number;
}

/**
 * Looks until it is told to stop.
 *
 * @returns what stops it
 */
export function whileAdmitted({ isAdmitted, onEnd, everyMs = LOOK_EVERY_MS }: WhileAdmitted): () => void {
  let state: "resting" | "looking" | "over" = "resting";
  const stop = (): void => {
    state = "over";
    clearInterval(timer);
  };
  const look = async (): Promise<void> => {
    state = "looking";
    const seen = await isAdmitted().catch(() => undefined);
    if (state !== "looking") {
      // Stopped meanwhile.
      return;
    }
    state = "resting";
    if (seen !== true) {
      stop();
      onEnd(seen === undefined ? "unknown" : "revoked");
    }
  };
  const timer = setInterval(() => {
    if (state === "resting") {
      void look();
    }
  }, everyMs).unref();
  return stop;
}

/** Breaks the answer off when the caller is let in no longer: a client must not take what it has for all there is. */
export function breakOffUnlessAdmitted(
  reply: FastifyReply,
  { isAdmitted, everyMs }: Omit<WhileAdmitted, "onEnd">,
): void {
  const stop = whileAdmitted({
    isAdmitted,
    ...(everyMs === undefined ? {} : { everyMs }),
    onEnd: () => {
      reply.request.log.info("an answer was broken off: its caller is let in no longer");
      reply.raw.destroy();
    },
  });
  reply.raw.once("close", stop);
}
