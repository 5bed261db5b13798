/** A tenant's slow rules do not block the event loop for others. */
import { expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { cpuMs } from "#test/support/cpu-time.ts";
import { createEndpoint, createTenant } from "#test/support/tenant.ts";

const api = useSharedApi();
const ENDPOINTS = 10;
const EVENTS = 300;

/** Returns the CPU time of `work`, and of the longest turn of the event loop meanwhile. */
async function longestStall(work: () => Promise<unknown>): Promise<{ took: number; stalled: number }> {
  const begunAt = cpuMs();
  let [lookedAt, stalled, going] = [begunAt, 0, true];
  const measure = (): void => {
    const now = cpuMs();
    stalled = Math.max(stalled, now - lookedAt);
    lookedAt = now;
    if (going) {
      setImmediate(measure);
    }
  };
  measure();
  await work();
  going = false;
  return { took: cpuMs() - begunAt, stalled };
}

test("a batch that takes seconds to check delays no other request until it ends", async () => {
  const tenant = await createTenant(api);
  const filter = { $or: Array.from({ length: 60 }, (_, at) => ({ "data.values": `none ${at}` })) };
  for (let made = 0; made < ENDPOINTS; made += 1) {
    await createEndpoint(api, tenant, { events: ["a.b"], filter });
  }
  const event = { type: "a.b", data: { values: Array.from({ length: 800 }, () => 1) } };
  // The first one loads the rules.
  expect(await tenant.post("/v1/events", event)).toMatchObject({ status: 202 });
  const { took, stalled } = await longestStall(async () => {
    const answer = await tenant.post("/v1/events", { events: Array.from({ length: EVENTS }, () => event) });
    expect(answer.status).toBe(202);
  });
  expect(stalled).toBeLessThan(took / 4);
});
