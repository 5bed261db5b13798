/** The first attempts of a carrier, as its workflow will request them. */
import type { DeliverInput } from "../../../workflows/messages.ts";
import type { AttemptRequest } from "./member-outcome.ts";

/** Returns the same request that `deliver` passes to its first activity. */
export function firstAttempts(carrier: string, input: DeliverInput): AttemptRequest {
  return {
    carrier,
    members: input.members,
    plan: {
      attempt: 1,
      offsetsMs: input.offsets_ms,
      anchorMs: null,
      dueMs: null,
      deadLetterMs: input.dead_letter_ms,
      part: input.mixed === true,
    },
    firstPass: true,
  };
}
