/** Contract 6, Retries: what counts as a failure, and 17 attempts with jitter over 72 hours. */
import { describe, expect, test } from "vitest";
import {
  deployedApi,
  publishOne,
  receiverOf,
  untilDelivery,
  verifiedEndpoint,
} from "../support/deployed-api.ts";
import { eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import { withoutPause } from "../support/pauses.ts";
import type { Behaviour } from "../support/receiver-server.ts";
import { type Json, rows, type Tenant } from "../support/tenant.ts";

allowMinutes(2);

const api = deployedApi();
const ATTEMPTS = 17;
const HOUR_MS = 3_600_000;
const WINDOW_MS = 72 * HOUR_MS;

/** Fails every attempt but the last, by request, and returns when each was due, in milliseconds after acceptance. */
async function dueTimes(tenant: Tenant, id: string): Promise<number[]> {
  const due: number[] = [];
  for (let made = 1; made < ATTEMPTS; made += 1) {
    const delivery = await untilDelivery(tenant, id, { state: "RETRYING", attempt_count: made });
    due.push(Date.parse(String(delivery["next_attempt_at"])) - Date.parse(String(delivery["created_at"])));
    expect(await tenant.post(`/v1/webhooks/deliveries/${id}/retry`)).toMatchObject({ status: 202 });
  }
  return due;
}

test("the schedule has 17 attempts, backs off exponentially with jitter, and spans 72 hours", async () => {
  // Deliveries of one endpoint may share a workflow, and with it their jitter.
  const failing = await Promise.all(
    [1, 2].map(async () => {
      const { tenant, receiver } = await verifiedEndpoint(api);
      receiver.answer([{ kind: "answer", status: 503 }]);
      return { tenant, receiver, id: await publishOne(tenant) };
    }),
  );
  const [one = [], two = []] = await Promise.all(
    failing.map(async ({ tenant, id }) => await dueTimes(tenant, id)),
  );
  for (const due of [one, two]) {
    expect(due).toHaveLength(ATTEMPTS - 1);
    expect(due).toEqual([...due].sort((a, b) => a - b));
    expect(due.at(-1)).toBeGreaterThan(0.97 * WINDOW_MS);
    expect(due.at(-1)).toBeLessThanOrEqual(WINDOW_MS + 60_000);
    expect(due[0]).toBeLessThan(60_000);
    // Exponential: each half of the window has few of the attempts.
    expect(due.filter((ms) => ms < WINDOW_MS / 8).length).toBeGreaterThan(ATTEMPTS / 2);
  }
  // Jitter: both deliveries were accepted within a moment, and hardly any two waits are equal.
  const waits = (due: readonly number[]) => due.map((ms, index) => ms - (due[index - 1] ?? 0));
  const same = waits(one).filter((wait, index) => wait === waits(two)[index]);
  expect(same.length).toBeLessThan(3);
  for (const { tenant, receiver, id } of failing) {
    await untilDelivery(tenant, id, { state: "DEAD_LETTERED", attempt_count: ATTEMPTS });
    expect(receiver.requests).toHaveLength(ATTEMPTS);
  }
});

describe("an attempt fails when the receiver", () => {
  test.each<readonly [string, Behaviour, Json]>([
    ["answers 300", { kind: "answer", status: 300 }, { error: "status", status: 300 }],
    ["answers 404", { kind: "answer", status: 404 }, { error: "status", status: 404 }],
    ["answers 500", { kind: "answer", status: 500, body: "no" }, { error: "status", status: 500 }],
    ["resets the connection", { kind: "reset" }, { status: null }],
    ["does not answer for 10 seconds", { kind: "hang" }, { error: "timeout", status: null }],
  ])("%s; the next one delivers", async (_name, behaviour, attempt) => {
    await withoutPause(async () => {
      const { tenant, receiver } = await verifiedEndpoint(api);
      receiver.answer([behaviour, { kind: "answer", status: 204 }]);
      const id = await publishOne(tenant);
      await untilDelivery(tenant, id, { state: "RETRYING", attempt_count: 1 });
      expect(await tenant.post(`/v1/webhooks/deliveries/${id}/retry`)).toMatchObject({ status: 202 });
      await untilDelivery(tenant, id, { state: "DELIVERED", attempt_count: 2, last_status: 204 });
      const made = rows(await tenant.get(`/v1/webhooks/deliveries/${id}/attempts`));
      expect(made).toMatchObject([
        { attempt: 1, ...attempt },
        { attempt: 2, status: 204, error: null },
      ]);
      const [leastMs, mostMs] = behaviour.kind === "hang" ? [9_900, 12_000] : [0, 9_900];
      expect(made[0]?.["duration_ms"]).toBeGreaterThanOrEqual(leastMs);
      expect(made[0]?.["duration_ms"]).toBeLessThan(mostMs);
      expect(new Set(receiver.requests.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
    });
  });

  test("redirects; the redirect is not followed", async () => {
    const { tenant, receiver } = await verifiedEndpoint(api);
    const elsewhere = await receiverOf();
    receiver.answer([{ kind: "redirect", location: elsewhere.url }]);
    const id = await publishOne(tenant);
    const failed = await untilDelivery(tenant, id, { state: "RETRYING", attempt_count: 1 });
    expect(failed).toMatchObject({ last_status: 302, last_error: "status" });
    expect(elsewhere.requests).toEqual([]);
  });
});

test("any 2xx delivers at the first attempt", async () => {
  const { tenant, receiver } = await verifiedEndpoint(api);
  receiver.answer([{ kind: "answer", status: 299 }]);
  await untilDelivery(tenant, await publishOne(tenant), { state: "DELIVERED", attempt_count: 1 });
});

test("Retry-After moves the next attempt, and 410 Gone disables the endpoint", async () => {
  const { tenant, receiver, id: endpointId } = await verifiedEndpoint(api);
  const waitS = 1_800;
  receiver.answer([
    { kind: "answer", status: 429, headers: { "retry-after": String(waitS) } },
    { kind: "answer", status: 410 },
  ]);
  const id = await publishOne(tenant);
  const waiting = await untilDelivery(tenant, id, { state: "RETRYING", attempt_count: 1 });
  const waitMs = Date.parse(String(waiting["next_attempt_at"])) - Date.parse(String(waiting["created_at"]));
  expect(waitMs).toBeGreaterThanOrEqual(waitS * 1_000 - 1_000);
  const retry = async () => await tenant.post(`/v1/webhooks/deliveries/${id}/retry`);
  expect(await retry()).toMatchObject({ status: 202 });
  await untilDelivery(tenant, id, { attempt_count: 2, last_status: 410 });
  await eventually(
    async () => (await tenant.get(`/v1/webhooks/endpoints/${endpointId}`)).body["state"] === "DISABLED",
    "the endpoint to be DISABLED",
  );
  // The next attempt finds the endpoint disabled, and sends nothing.
  expect(await retry()).toMatchObject({ status: 202 });
  await untilDelivery(tenant, id, { state: "DEAD_LETTERED", attempt_count: 2 });
  expect(receiver.requests).toHaveLength(2);
});
