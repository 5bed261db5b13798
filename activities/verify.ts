/** Activities of the `verifyEndpoint` workflow. */
import { ApplicationFailure } from "@temporalio/common";
import { SignetError } from "#domain/errors.ts";
import { messageOf } from "#runtime/thrown.ts";
import { type ChallengeOptions, sendPing } from "#webhooks/endpoints/challenge.ts";
import type { VerifyActivities } from "./types.ts";

export function createVerifyActivities(options: ChallengeOptions): VerifyActivities {
  return {
    ping: async (input) => {
      try {
        const ping = {
          endpointId: input.endpoint_id,
          generation: input.generation,
          attempt: input.attempt,
          nextAttemptMs: input.next_attempt_ms,
        };
        const outcome = await sendPing(ping, options);
        return { outcome };
      } catch (error) {
        // Only a wrong clock is worth a retry. Otherwise the schedule of pings continues.
        throw error instanceof SignetError && error.code === "CLOCK_SKEWED"
          ? error
          : ApplicationFailure.create({ message: messageOf(error), nonRetryable: true });
      }
    },
  };
}
