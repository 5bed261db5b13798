/** Pings an endpoint until it answers the challenge, for at most 72 hours (contract 3, security decisions H). */
import {
  condition,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from "@temporalio/workflow";
import type { VerifyActivities } from "#activities/types.ts";
import { readable, signalCommands, VERIFY_HANDLERS } from "./descriptions.ts";
import {
  attemptNowSignal,
  type VerifyEndpointInput,
  type VerifyEndpointResult,
  verifyStatusQuery,
} from "./messages.ts";

// One try: a ping lost to our own outage counts as unanswered, and the next one follows soon. The activity allows
// retries only if it could not send: its clock was wrong, or its worker ended.
const PING_OPTIONS = {
  startToCloseTimeout: "8 seconds",
  retry: { initialInterval: "1 second", backoffCoefficient: 2, maximumInterval: "30 seconds" },
} as const;
const { ping } = proxyActivities<VerifyActivities>(PING_OPTIONS);
/** Most runs end with their first ping. As a local activity it needs one workflow task and no activity task. */
const { ping: firstPing } = proxyLocalActivities<VerifyActivities>(PING_OPTIONS);

/** Maximum number of extra pings by attempt-now signals in one run. */
const EXTRA_PINGS_MAX = 100;

export async function verifyEndpoint(input: VerifyEndpointInput): Promise<VerifyEndpointResult> {
  const startMs = Date.now();
  let pings = 0;
  let slot = 0;
  let asked = 0;
  let nextMs: number | null = startMs;
  setHandler(
    attemptNowSignal,
    () => {
      asked += 1;
    },
    VERIFY_HANDLERS.attemptNow,
  );
  setHandler(
    verifyStatusQuery,
    () => ({ pings, next_ping_at: nextMs === null ? null : new Date(nextMs).toISOString() }),
    VERIFY_HANDLERS.status,
  );

  while (nextMs !== null || asked > 0) {
    if (nextMs !== null && nextMs > Date.now()) {
      await condition(() => asked > 0, nextMs - Date.now(), { summary: `until ping ${pings + 1}` });
    }
    const extra = asked > 0 && nextMs !== null && nextMs > Date.now();
    asked = 0;
    if (!extra || pings - slot >= EXTRA_PINGS_MAX) {
      // A requested ping does not change the schedule.
      slot += 1;
      const offset = input.offsets_ms[slot];
      nextMs = offset === undefined ? null : Math.max(startMs + offset, Date.now());
    }
    pings += 1;
    const outcome = await challenge(input, pings, nextMs);
    if (outcome !== "failed") {
      setCurrentDetails(`Ended: ${outcome} by ping ${pings}.`);
      return { outcome, pings };
    }
    describe(input, pings, nextMs);
  }
  setCurrentDetails(
    `Ended: none of ${pings} pings was acknowledged. The endpoint's tenant can ask for another run.`,
  );
  return { outcome: "exhausted", pings };
}

async function challenge(
  input: VerifyEndpointInput,
  attempt: number,
  nextMs: number | null,
): Promise<"verified" | "failed" | "superseded"> {
  // Runs that were started with version 1 made every ping by an activity.
  const local = input.v === 2 && attempt === 1;
  try {
    const { outcome } = await (local ? firstPing : ping).executeWithOptions({ summary: `ping ${attempt}` }, [
      {
        endpoint_id: input.endpoint_id,
        generation: input.generation,
        attempt,
        next_attempt_ms: nextMs,
      },
    ]);
    return outcome;
  } catch (error) {
    if (isCancellation(error)) {
      throw error;
    }
    return "failed";
  }
}

function describe(
  { endpoint_id: endpoint }: VerifyEndpointInput,
  pings: number,
  nextMs: number | null,
): void {
  const next = nextMs === null ? "none" : readable(new Date(nextMs).toISOString());
  setCurrentDetails(
    [
      `**${endpoint}**: ${pings} ${pings === 1 ? "ping" : "pings"}, none acknowledged. Next ping: ${next}.`,
      "",
      ...signalCommands(workflowInfo(), ["attemptNow"]),
    ].join("\n"),
  );
}
