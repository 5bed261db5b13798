/** Exercises the client library's bulk operations on dead letters. */
import { expect } from "vitest";
import type { Endpoint } from "#lib/client/api-types.ts";
import type { SignetClient } from "#lib/client/signet-client.ts";
import { eventually } from "./eventually.ts";

/** Calls every method of replay jobs, for an endpoint of `replay.many`. */
export async function replayManyAsJob(signet: SignetClient, { id }: Pick<Endpoint, "id">): Promise<void> {
  await signet.endpoints.disable(id);
  await signet.events.publishBatch(
    Array.from({ length: 5 }, (_, run) => ({ type: "replay.many", data: { run } })),
  );
  const filter = { endpoint_id: id };
  expect(await signet.deadLetters.countReplay({ filter })).toEqual({
    dry_run: true,
    total: 5,
    would_fail: 5,
  });
  expect(await signet.deadLetters.summary(id)).toMatchObject({ total: 5 });
  await eventually(
    async () => (await signet.deadLetters.groups(filter).page()).data[0]?.count === 5,
    "the count of the group",
  );
  expect(await signet.replays.count({ states: ["DELIVERED", "RETRYING"], filter })).toEqual({
    dry_run: true,
    total: 0,
  });
  expect(await signet.replays.create({ states: ["DELIVERED"], filter })).toMatchObject({
    kind: "deliveries",
    state: "COMPLETED",
    total: 0,
  });
  const job = await signet.deadLetters.replayAll({ filter, rate_per_second: 1 });
  expect(job).toMatchObject({ kind: "dead_letters", total: 5 });
  expect(await signet.replays.pause(job.id)).toMatchObject({ state: "PAUSED" });
  expect(await signet.replays.resume(job.id)).toMatchObject({ state: "RUNNING" });
  expect((await signet.replays.items(job.id).page()).data).toHaveLength(5);
  expect((await signet.replays.outcomes(job.id)).delivered).toBe(0);
  expect(await signet.replays.cancel(job.id)).toMatchObject({ state: "CANCELLED" });
  expect(await signet.replays.get(job.id)).toMatchObject({ state: "CANCELLED" });
  expect((await signet.replays.list().page()).data[0]).toMatchObject({ id: job.id });
  await signet.endpoints.delete(id);
}

/** Calls the remaining methods of deliveries, for an endpoint of `paced.slowly`. */
export async function hastenAndCancel(
  signet: SignetClient,
  { id }: Pick<Endpoint, "id">,
  nowMs: number,
): Promise<void> {
  await signet.endpoints.update(id, { rate_limit: 1 });
  await signet.events.publishBatch(Array.from({ length: 9 }, () => ({ type: "paced.slowly", data: {} })));
  const [last] = (await signet.deliveries.list({ endpoint_id: id }).page()).data;
  expect(await signet.deliveries.retry(last?.id ?? "")).toMatchObject({ id: last?.id });
  expect(await signet.deliveries.cancel(last?.id ?? "")).toMatchObject({ state: "CANCELLED" });
  await expect(signet.deliveries.retry(last?.id ?? "")).rejects.toMatchObject({ code: "INVALID_STATE" });
  expect(await signet.deliveries.resend(last?.id ?? "")).toMatchObject({ id: last?.id, cycle: 2 });
  expect(await signet.deliveries.stats()).toHaveLength(24);
  const hours = await signet.deliveries.stats({ endpoint_id: id });
  expect(hours.reduce((sum, { total }) => sum + total, 0)).toBe(9);
  // Each event has one delivery to this endpoint.
  const which = { since: new Date(nowMs - 60_000) };
  expect(await signet.endpoints.countMissing(id, which)).toEqual({ dry_run: true, total: 0 });
  expect(await signet.endpoints.replayMissing(id, which)).toMatchObject({ kind: "missing", total: 0 });
  await signet.endpoints.delete(id);
}
