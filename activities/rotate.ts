/** Activities of the `rotateCredentials` workflow. */
import { type RotationSweepOptions, sweepRotation } from "#tokens/credentials/rotation-sweep.ts";
import { heartbeating } from "./heartbeating.ts";
import type { RotateActivities } from "./types.ts";

export function createRotateActivities(options: RotationSweepOptions): RotateActivities {
  return {
    rotate: async () => await heartbeating(async () => await sweepRotation(options)),
  };
}
