/** Settings of the rotation of client secrets (security decisions C, K). */
import type { RotationRules } from "#domain/secret-version.ts";
import { duration, setting } from "./setting.ts";

export const ROTATION_SETTINGS = {
  rotationPeriodMs: setting(
    "SIGNET_ROTATION_PERIOD",
    duration("1s", "30d"),
    "30d",
    "how long the secret of a production credential is in use before it gets a successor",
  ),
  rotationQuietMs: setting(
    "SIGNET_ROTATION_QUIET",
    duration("1s", "30d"),
    "24h",
    "a secret whose successor is in use ends when it has been unused for this long",
  ),
  rotationMaxOverlapMs: setting(
    "SIGNET_ROTATION_MAX_OVERLAP",
    duration("0", "365d"),
    "45d",
    "how long a secret lasts after its successor was due, except over its registered certificate; 0: it ends when the successor is due",
  ),
  rotationRescueMs: setting(
    "SIGNET_ROTATION_RESCUE",
    duration("0", "3650d"),
    "180d",
    "how long a secret that fell out of use still returns its successor, over its registered certificate",
  ),
} as const;

/** Returns the rules of the rotation from the settings. */
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
