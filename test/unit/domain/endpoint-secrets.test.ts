import { array, assert, nat, property } from "fast-check";
import { describe, expect, it } from "vitest";
import { activated, type SecretVersion, signingVersions, versionsAt } from "#domain/endpoint-secrets.ts";

const at = (ms: number): Date => new Date(ms);
const OVERLAP = 1_000;

function version(
  number: number,
  state: SecretVersion["state"],
  times: Partial<SecretVersion> = {},
): SecretVersion {
  return {
    version: number,
    state,
    createdAt: at(0),
    currentAt: null,
    overlapEndsAt: null,
    retiredAt: null,
    ...times,
  };
}

/** Versions after a rotation at 0. */
const rotating = [
  version(2, "NEXT", { currentAt: at(OVERLAP), overlapEndsAt: at(2 * OVERLAP) }),
  version(1, "CURRENT"),
];

/** Returns the versions that a sender uses. */
function signing(versions: readonly SecretVersion[], ms: number): (number | null)[] {
  const current = versions.find(({ state }) => state === "CURRENT");
  const other = versions.find(({ state }) => state === "NEXT" || state === "PREVIOUS");
  const { first, second } = signingVersions(current as SecretVersion, (other as never) ?? null, ms);
  return [first.version, second?.version ?? null];
}

const states = (versions: readonly SecretVersion[]): string[] => versions.map(({ state }) => state);

describe("the signing secrets", () => {
  it.each([
    [0, [1, 2]],
    [OVERLAP - 1, [1, 2]],
    [OVERLAP, [2, 1]],
    [2 * OVERLAP - 1, [2, 1]],
    [2 * OVERLAP, [2, null]],
    [100 * OVERLAP, [2, null]],
  ])("%i ms after a rotation are %j", (ms, expected) => {
    expect(signing(rotating, ms)).toEqual(expected);
  });

  it("are the same whether or not the state changes have been recorded", () => {
    assert(
      property(nat(5 * OVERLAP), array(nat(5 * OVERLAP), { maxLength: 4 }), (ms, sweeps) => {
        const swept = sweeps
          .filter((sweep) => sweep <= ms)
          .toSorted((left, right) => left - right)
          .reduce((versions, sweep) => versionsAt(versions, sweep), rotating);
        expect(signing(swept, ms)).toEqual(signing(rotating, ms));
      }),
    );
  });

  it("are never empty, and an activation keeps the previous one for the same overlap", () => {
    const early = activated(rotating, { at: at(10), overlapEndsAt: at(10 + OVERLAP) });
    expect(states(early)).toEqual(["CURRENT", "PREVIOUS"]);
    expect(signing(early, 10)).toEqual([2, 1]);
    expect(signing(early, 9 + OVERLAP)).toEqual([2, 1]);
    expect(signing(early, 10 + OVERLAP)).toEqual([2, null]);
  });
});

describe("versions at a moment", () => {
  it.each([
    [OVERLAP - 1, ["NEXT", "CURRENT"]],
    [OVERLAP, ["CURRENT", "PREVIOUS"]],
    [2 * OVERLAP, ["CURRENT", "RETIRED"]],
  ])("%i ms after a rotation are %j", (ms, expected) => {
    expect(states(versionsAt(rotating, ms))).toEqual(expected);
  });

  it("are retired at the time they expired, not when they were next read", () => {
    expect(versionsAt(rotating, 9 * OVERLAP)[1]).toMatchObject({ retiredAt: at(2 * OVERLAP) });
  });

  it("stay the same objects when unchanged: unchanged rows are not written", () => {
    const [next, current] = versionsAt(rotating, 1);
    expect(next).toBe(rotating[0]);
    expect(current).toBe(rotating[1]);
  });
});
