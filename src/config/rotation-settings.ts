/** Settings of the rotation of client secrets (security decisions C, K). */
import type { RotationRules } from "../domain/secret-version.ts";
import { duration, setting } from "./setting.ts";

export const ROTATION_SETTINGS = {
  rotationPeriodMs: setting(
    "SIGNET_ROTATION_PERIOD",
    duration("1s", "30d"),
    "30d",
    "after so long in use, the secret of a production credential gets a successor",
  ),
  rotationQuietMs: setting(
    "SIGNET_ROTATION_QUIET",
    duration("1s", "30d"),
    "24h",
    "a secret whose successor is in use ends when nobody has used it for so long",
  ),
  rotationMaxOverlapMs: setting(
    "SIGNET_ROTATION_MAX_OVERLAP",
    duration("0", "365d"),
    "45d",
    "a secret ends so long after its successor was due, except over its registered certificate; 0: as soon as it is due",
  ),
  rotationRescueMs: setting(
    "SIGNET_ROTATION_RESCUE",
    duration("0", "3650d"),
    "180d",
    "a secret that fell out of use yields its successor for so long, over its registered certificate",
  ),
} as const;

/** What the settings say about the rotation. */
export function rotationRules(config: {
  readonly rotationPeriodMs: number;
  readonly rotationQuietMs: number;
  readonly rotationMaxOverlapMs: number;
  readonly rotationRescueMs: number;
}): RotationRules {
  return {
    periodMs: config.rotationPeriodMs,
    quietMs: config.rotationQuietMs,
    maxOverlapMs: config.rotationMaxOverlapMs,
    rescueMs: config.rotationRescueMs,
  };
}
