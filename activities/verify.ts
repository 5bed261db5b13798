/** Activities of the `verifyEndpoint` workflow. */
import type { Challenge } from "../src/endpoints/challenge.ts";
import type { VerifyActivities } from "./types.ts";

export function createVerifyActivities(challenge: Challenge): VerifyActivities {
  return {
    ping: async (input) => ({
      outcome: await challenge.ping({
        endpointId: input.endpoint_id,
        generation: input.generation,
        attempt: input.attempt,
        nextAttemptMs: input.next_attempt_ms,
      }),
    }),
  };
}
