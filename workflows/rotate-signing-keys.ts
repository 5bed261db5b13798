/** Scheduled maintenance: lifecycle of the signing keys (security decisions A). */
import { proxyActivities, setCurrentDetails } from "@temporalio/workflow";
import type { SigningKeyActivities, SigningKeyChanges } from "#activities/types.ts";

const { advanceSigningKeys } = proxyActivities<SigningKeyActivities>({
  summary: "moves the signing keys on",
  startToCloseTimeout: "1 minute",
  retry: { initialInterval: "5 seconds", maximumInterval: "1 minute", maximumAttempts: 10 },
});

export async function rotateSigningKeys(): Promise<SigningKeyChanges> {
  const changes = await advanceSigningKeys();
  const done = Object.entries(changes).flatMap(([what, kids]: readonly [string, readonly string[]]) =>
    kids.length === 0 ? [] : [`${what}: ${kids.join(", ")}`],
  );
  setCurrentDetails(done.length === 0 ? "No signing key was due." : `Signing keys ${done.join("; ")}.`);
  return changes;
}
