/** Upkeep by schedule: the life of the signing keys (security decisions A). */
import { proxyActivities } from "@temporalio/workflow";
import type { SigningKeyActivities, SigningKeyChanges } from "../activities/types.ts";

const { advanceSigningKeys } = proxyActivities<SigningKeyActivities>({
  startToCloseTimeout: "1 minute",
  retry: { initialInterval: "5 seconds", maximumInterval: "1 minute", maximumAttempts: 10 },
});

export async function rotateSigningKeys(): Promise<SigningKeyChanges> {
  return await advanceSigningKeys();
}
