/** A process with a slow event loop rejects no requests while the database answers. */
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { accessToken, bearer, provision } from "#test/support/factories.ts";
import { withoutPause } from "#test/support/pauses.ts";

const STALLS = 12;
const IN_FLIGHT = 8;
const STALL_MS = [150, 400, 250, 600];
const api = useSharedApi();

/** Sends a body that is rejected right after admission. */
async function probe(token: string): Promise<unknown> {
  const { status, body } = await api.requestOnce("/v1/events", {
    method: "POST",
    headers: { ...bearer(token), "content-type": "application/json" },
    body: "{}",
  });
  return status === 422 ? "admitted" : body["code"];
}

// test/unit/revocation/follower-schedules.test.ts tries other places of the stalls. This is about the driver, too.
test("an event loop that is stalled repeatedly rejects no requests", async () => {
  await withoutPause(async () => {
    const token = await accessToken(api, await provision(api, { scopes: ["events:publish"] }));
    await eventually(async () => (await probe(token)) === "admitted", "admission");
    const still = new Int32Array(new SharedArrayBuffer(4));
    const stalls = { count: 0 };
    /** Blocks the event loop like a long computation, usually for longer than a lease. */
    const stallAgain = (): void => {
      if (stalls.count < STALLS) {
        Atomics.wait(still, 0, 0, STALL_MS[stalls.count % STALL_MS.length]);
        stalls.count += 1;
        setTimeout(stallAgain, 5);
      }
    };
    setTimeout(stallAgain, 5);
    const outcomes = new Map<unknown, number>();
    const traffic = async (): Promise<void> => {
      while (stalls.count < STALLS) {
        const outcome = await probe(token);
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
        await delay(1);
      }
    };
    await Promise.all(Array.from({ length: IN_FLIGHT }, traffic));
    expect(Object.fromEntries(outcomes)).toEqual({ admitted: expect.any(Number) });
  });
});
