import { expect, test } from "vitest";
import type { LoadedDelivery } from "#database/repositories/webhooks/attempts.ts";
import { InFlightRequests, type InFlightRequestsOptions } from "#webhooks/engine/in-flight-requests.ts";
import type { AttemptPlan } from "#webhooks/engine/member-outcome.ts";
import { ConnectFailure } from "#webhooks/sending/http-tls.ts";

const KEY = { deliveryId: "dlv_1", epoch: 1, carrier: "car_1", attempt: 1 };
const DELIVERY = { delivery_id: "dlv_1", endpoint_id: "ep_1", cycle: 1 } as LoadedDelivery;
const PLAN: AttemptPlan = {
  attempt: 1,
  offsetsMs: [],
  anchorMs: null,
  dueMs: null,
  deadLetterMs: 1,
  leaves: () => false,
};

/** Requests that all fail with this error, before anything else is used. */
function failing(error: Error) {
  const warned: unknown[] = [];
  const clock = { now: () => 1_000 };
  const requests = new InFlightRequests({
    send: async () => await Promise.reject(error),
    clock,
    randomBytes: (size: number) => new Uint8Array(size).fill(128),
    log: { warn: (fields: unknown) => warned.push(fields), error: () => undefined },
  } as unknown as InFlightRequestsOptions);
  return { clock, requests, warned };
}

function lacking(code: string): Error {
  return new ConnectFailure("connect", Object.assign(new Error("no socket"), { code }));
}

test.each(["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"])(
  "an attempt without a socket (%s) is made again later, by a new request",
  async (code) => {
    const { requests } = failing(lacking(code));
    const request = requests.send(KEY, DELIVERY, PLAN);
    expect(await request.outcome).toEqual({ kind: "postponed", dueMs: 2_500 });
    expect(requests.join(KEY, 1)).toBeUndefined();
    expect(requests.deliveries()).toEqual([]);
  },
);

test("such attempts are a line in the log every ten seconds", async () => {
  const { clock, requests, warned } = failing(lacking("EMFILE"));
  for (const nowMs of [1_000, 2_000, 10_999, 11_000]) {
    clock.now = () => nowMs;
    await requests.send(KEY, DELIVERY, PLAN).outcome;
  }
  expect(warned).toHaveLength(2);
});

test("any other fault of ours is thrown", async () => {
  const { requests } = failing(new Error("unsendable header"));
  await expect(requests.send(KEY, DELIVERY, PLAN).outcome).rejects.toThrow("unsendable header");
  expect(requests.join(KEY, 1)).toBeUndefined();
});
