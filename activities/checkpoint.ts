/** Activities of the `signCheckpoint` workflow. */
import { ApplicationFailure } from "@temporalio/common";
import { CHECKPOINT_REFUSED } from "#workflows/messages.ts";
import {
  CheckpointRefusedError,
  type CheckpointSigner,
  signCheckpoint,
} from "#compliance/sign-checkpoint.ts";
import type { Logger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import { heartbeating } from "./heartbeating.ts";
import type { CheckpointActivities } from "./types.ts";

export function createCheckpointActivities(signer: CheckpointSigner, log: Logger): CheckpointActivities {
  return {
    sign: async () => {
      try {
        const result = await heartbeating(async () => await signCheckpoint(signer));
        metrics.checkpointSize.set(result.size);
        metrics.checkpointRefused.set(0);
        return result;
      } catch (error) {
        if (!(error instanceof CheckpointRefusedError)) {
          throw error;
        }
        metrics.checkpointRefused.set(1);
        log.error(
          { err: error },
          "the compliance log was not signed because it does not extend its last signed state",
        );
        throw ApplicationFailure.create({
          type: CHECKPOINT_REFUSED,
          message: error.message,
          nonRetryable: true,
        });
      }
    },
  };
}
