/** Settings of the rotation of client secrets (security decisions C, K). */
import type { RotationRules } from "../domain/secret-version.ts";
import { type Parser, setting } from "./setting.ts";

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

function milliseconds(text: string): number {
  const [, count, unit] = /^(\d{1,12})(ms|s|m|h|d)$/.exec(text) ?? [];
  return text === "0" ? 0 : Number(count) * UNITS[unit as keyof typeof UNITS];
}

/** A duration such as `30d`, `24h`, `90s` or `0`, in milliseconds. */
function duration(minimum: string, maximum: string): Parser<number> {
  return (value) => {
    const length = milliseconds(value);
    if (!(length >= milliseconds(minimum) && length <= milliseconds(maximum))) {
      throw new Error(`must be a duration from ${minimum} to ${maximum}, such as 90s, 24h or 30d`);
    }
    return length;
  };
}

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
