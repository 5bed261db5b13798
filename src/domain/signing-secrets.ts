/**
 * Which versions of an endpoint's secret sign at a moment (security decisions F). Rows say what was last written down;
 * the times decide, so that nothing has to happen at the moment itself.
 */

/** How a version stands beside the current one. */
export interface RotationTimes {
  readonly state: "NEXT" | "PREVIOUS";
  /** When NEXT becomes the one that signs first. */
  readonly currentAt: Date | null;
  /** When the older of the two stops signing. */
  readonly overlapEndsAt: Date | null;
}

/**
 * The versions that sign, the first of them in the header that has room for one.
 *
 * @param asOfMs Unix milliseconds; for a tenant that is held, when the hold began
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

/** What is kept of a version besides its value. */
export interface SecretVersion {
  readonly version: number;
  readonly state: "NEXT" | "CURRENT" | "PREVIOUS" | "RETIRED";
  readonly createdAt: Date;
  readonly currentAt: Date | null;
  readonly overlapEndsAt: Date | null;
  readonly retiredAt: Date | null;
}

/** A version that is over now. */
export function retired<Version extends SecretVersion>(version: Version, at: Date): Version {
  return { ...version, state: "RETIRED", overlapEndsAt: null, retiredAt: at };
}

/** NEXT takes the place of the current version, which goes on beside it until the overlap ends. */
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

/** The versions as they stand at a moment, whatever was written down last. */
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
