/** The table of endpoint transitions, written a second time from the design and not from the code. */
import { describe, expect, it } from "vitest";
import {
  ENDPOINT_MOVES,
  type EndpointMove,
  type EndpointMoveName,
  type EndpointPlace,
  mayMove,
  stepWhenDue,
} from "#domain/endpoint-state.ts";

const PLACES = {
  PENDING: { state: "PENDING", disabled_reason: null },
  ACTIVE: { state: "ACTIVE", disabled_reason: null },
  "DISABLED by its tenant": { state: "DISABLED", disabled_reason: "tenant" },
  "DISABLED for failing": { state: "DISABLED", disabled_reason: "failing" },
  "DISABLED as gone": { state: "DISABLED", disabled_reason: "gone" },
  DELETED: { state: "DELETED", disabled_reason: null },
} as const satisfies Readonly<Record<string, EndpointPlace>>;
type Place = keyof typeof PLACES;

/** For each move: its target, and its sources. */
const DESIGN: Readonly<Record<EndpointMoveName, readonly [Place, readonly Place[]]>> = {
  verify: ["ACTIVE", ["PENDING"]],
  redirect: ["PENDING", ["PENDING", "ACTIVE"]],
  enable: ["PENDING", ["DISABLED by its tenant", "DISABLED for failing", "DISABLED as gone"]],
  resume: ["ACTIVE", ["DISABLED by its tenant", "DISABLED for failing", "DISABLED as gone"]],
  disable: ["DISABLED by its tenant", ["PENDING", "ACTIVE", "DISABLED for failing", "DISABLED as gone"]],
  fail: ["DISABLED for failing", ["ACTIVE"]],
  gone: ["DISABLED as gone", ["ACTIVE"]],
  delete: [
    "DELETED",
    ["PENDING", "ACTIVE", "DISABLED by its tenant", "DISABLED for failing", "DISABLED as gone"],
  ],
};

describe("the life of an endpoint", () => {
  const pairs = Object.keys(DESIGN).flatMap((name) => Object.keys(PLACES).map((place) => [name, place]));

  it.each(pairs as [EndpointMoveName, Place][])("%s from %s", (name, place) => {
    const [to, from] = DESIGN[name];
    expect(mayMove(name, PLACES[place])).toBe(from.includes(place));
    expect(ENDPOINT_MOVES[name].to).toEqual(PLACES[to]);
  });

  it("has no move out of a tombstone, and one into every state", () => {
    const moves = Object.values<EndpointMove>(ENDPOINT_MOVES);
    expect(moves.filter(({ from }) => from.includes("DELETED"))).toEqual([]);
    expect(new Set(moves.map(({ to }) => to.state))).toEqual(
      new Set(["PENDING", "ACTIVE", "DISABLED", "DELETED"]),
    );
  });

  it("gets a new generation wherever an answer to an earlier ping must not count", () => {
    for (const { to, newGeneration } of Object.values<EndpointMove>(ENDPOINT_MOVES)) {
      // Only an endpoint that is or was PENDING can answer a ping: one that becomes PENDING again is a new one.
      expect(newGeneration || (to.state !== "PENDING" && to.state !== "DELETED")).toBe(true);
    }
  });
});

describe("a delivery that is due", () => {
  it.each<readonly [Place, verifying: boolean, attempt: number, ReturnType<typeof stepWhenDue>]>([
    ["ACTIVE", false, 1, "send"],
    ["PENDING", true, 1, "wait"],
    ["PENDING", true, 17, "wait"],
    ["PENDING", false, 1, "dead-letter"],
    ["DISABLED by its tenant", false, 1, "dead-letter"],
    ["DISABLED by its tenant", false, 2, "dead-letter"],
    ["DISABLED as gone", false, 2, "dead-letter"],
    ["DISABLED for failing", false, 1, "dead-letter"],
    ["DISABLED for failing", false, 2, "send"],
    ["DELETED", false, 1, "cancel"],
  ])("to an endpoint that is %s (pings pending: %s), attempt %i: %s", (place, verifying, attempt, step) => {
    expect(stepWhenDue(PLACES[place], verifying, attempt)).toBe(step);
  });
});
