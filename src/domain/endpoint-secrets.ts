/**
 * Endpoint secrets: selects the versions that sign at an instant (security decisions F). Rows may lag behind, but the
 * times decide, so that no job has to run at that instant.
 */

/** The state of a version other than the current one. */
export interface RotationTimes {
  readonly state: "NEXT" | "PREVIOUS";
  /** When NEXT becomes the first to sign. */
  readonly currentAt: Date | null;
  /** When the older of the two stops signing. */
  readonly overlapEndsAt: Date | null;
}

/**
 * Returns the signing versions. The first one goes into the header with room for one signature.
 *
 * @param asOfMs instant, in Unix milliseconds; for a tenant on hold, when the hold began
 */
export function signingVersions<Version>(
  current: Version,
  beside: (Version & RotationTimes) | null,
  asOfMs: number,
): { readonly first: Version; readonly second: Version | null } {
  if (beside === null) {
    return { first: current, second: null };
  }
  const over = reached(beside.overlapEndsAt, asOfMs);
  if (beside.state === "PREVIOUS") {
    return { first: current, second: over ? null : beside };
  }
  if (!reached(beside.currentAt, asOfMs)) {
    return { first: current, second: beside };
  }
  return { first: beside, second: over ? null : current };
}

function reached(instant: Date | null, asOfMs: number): boolean {
  return instant === null || instant.getTime() <= asOfMs;
}

/** The data of a version, without its value. */
export interface SecretVersion {
  readonly version: number;
  readonly state: "NEXT" | "CURRENT" | "PREVIOUS" | "RETIRED";
  readonly createdAt: Date;
  readonly currentAt: Date | null;
  readonly overlapEndsAt: Date | null;
  readonly retiredAt: Date | null;
}

/** Returns a version as RETIRED. */
export function retired<Version extends SecretVersion>(version: Version, at: Date): Version {
  return { ...version, state: "RETIRED", overlapEndsAt: null, retiredAt: at };
}

/** Makes NEXT the current version. The previous one keeps signing until the overlap ends. */
export function activated<Version extends SecretVersion>(
  versions: readonly Version[],
  { at, overlapEndsAt }: { readonly at: Date; readonly overlapEndsAt: Date },
): Version[] {
  return versions.map((version) => {
    if (version.state === "NEXT") {
      return { ...version, state: "CURRENT", currentAt: at, overlapEndsAt: null };
    }
    return version.state === "CURRENT" ? { ...version, state: "PREVIOUS", overlapEndsAt } : version;
  });
}

/** Returns the versions as of an instant, even if the stored states lag behind. */
export function versionsAt<Version extends SecretVersion>(
  versions: readonly Version[],
  asOfMs: number,
): Version[] {
  const next = versions.find(({ state }) => state === "NEXT");
  const moved =
    next?.currentAt != null && next.overlapEndsAt !== null && reached(next.currentAt, asOfMs)
      ? activated(versions, { at: next.currentAt, overlapEndsAt: next.overlapEndsAt })
      : versions;
  return moved.map((version) => {
    const { state, overlapEndsAt } = version;
    return state === "PREVIOUS" && overlapEndsAt !== null && reached(overlapEndsAt, asOfMs)
      ? retired(version, overlapEndsAt)
      : version;
  });
}
