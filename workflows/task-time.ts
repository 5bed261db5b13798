/**
 * Refuses events before a workflow task gives them a time. A query to a worker without the workflow in its cache brings the
 * whole history. The SDK hands the workflow the last events too, with the time of the task before them. The task that
 * follows has another time, so a replay would decide otherwise than the cached workflow did, and fail for ever.
 */
import type { WorkflowInterceptors } from "@temporalio/workflow";

/** Called by the SDK for each workflow. The query fails, and the SDK forgets what the workflow has seen. */
export function interceptors(): WorkflowInterceptors {
  let seen = { historyLength: 0, time: "" };
  return {
    internals: [
      {
        activate(input, next) {
          const { historyLength, isReplaying, timestamp } = input.activation;
          const now = {
            historyLength: historyLength ?? 0,
            time: `${timestamp?.seconds?.toString()}.${timestamp?.nanos}`,
          };
          // The tasks of one workflow never start in the same nanosecond.
          if (isReplaying !== true && now.historyLength > seen.historyLength && now.time === seen.time) {
            throw new Error("this workflow has events that no workflow task has handled yet: ask again");
          }
          seen = now;
          next(input);
        },
      },
    ],
  };
}
