/** A process with a slow event loop rejects no requests while the database answers. */
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { useSharedApi } from "../../support/api.ts";
import { eventually } from "../../support/eventually.ts";
import { accessToken, bearer, provision } from "../../support/factories.ts";

const STALLS = 12;
const IN_FLIGHT = 8;
const api = useSharedApi();
let token: string;
const stalls = { wanted: false, count: 0 };

/** Blocks the event loop like a long computation, usually for longer than a lease. */
function stall(): void {
  const still = new Int32Array(new SharedArrayBuffer(4));
  Atomics.wait(still, 0, 0, [150, 400, 250, 600][stalls.count % 4]);
  stalls.count += 1;
}

/** Sends a body that is rejected right after admission. */
async function probe(): Promise<unknown> {
  const { status, body } = await api.requestOnce("/v1/events", {
    method: "POST",
    headers: { ...bearer(token), "content-type": "application/json" },
    body: "{}",
  });
  return status === 422 ? "admitted" : body["code"];
}

beforeEach(async () => {
  token = await accessToken(api, await provision(api, { scopes: ["events:publish"] }));
  await eventually(async () => (await probe()) === "admitted", "admission");
  stalls.count = 0;
  stalls.wanted = true;
});
afterEach(() => {
  stalls.wanted = false;
});

test.each([
  ["in its timers", (again: () => void) => void setTimeout(again, 5)],
  ["after every turn", (again: () => void) => void setImmediate(again)],
  ["after its sockets", (again: () => void) => void setTimeout(() => setImmediate(again), 20)],
])("an event loop that is stalled repeatedly, %s, rejects no requests", async (_where, schedule) => {
  const stallAgain = (): void => {
    if (stalls.wanted) {
      stall();
      schedule(stallAgain);
    }
  };
  schedule(stallAgain);
  const outcomes = new Map<unknown, number>();
  const traffic = async (): Promise<void> => {
    while (stalls.count < STALLS) {
      const outcome = await probe();
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      await delay(1);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, traffic));
  expect(Object.fromEntries(outcomes)).toEqual({ admitted: expect.any(Number) });
});
