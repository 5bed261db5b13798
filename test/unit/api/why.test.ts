/** Every explanation names what happened, what is waited for, until when, and what to do. */
import { describe, expect, test } from "vitest";
import { explainDelivery, type DeliveryFacts } from "#api/admin/why/explain-delivery.ts";
import {
  type EndpointFacts,
  explainEndpoint,
  explainEvent,
  explainTenant,
} from "#api/admin/why/explain-others.ts";
import {
  type Cause,
  instantText,
  lengthText,
  paragraph,
  type Surroundings,
} from "#api/admin/why/explanation.ts";
import type { Endpoint } from "#database/repositories/endpoints/endpoints.ts";
import type { Delivery } from "#database/repositories/webhooks/deliveries.ts";
import type { ReportedActivity } from "#database/repositories/webhooks/delivery-counts.ts";
import { DELIVERY_STATES } from "#domain/delivery.ts";
import {
  ago,
  ahead,
  around,
  held,
  NOW,
  noTemporal,
  noWorker,
  pause,
  tenant,
} from "#test/support/surroundings.ts";

const endpoint = {
  id: "ep_1",
  generation: 2,
  url: "https://receiver.example/hooks?token=secret",
  state: "ACTIVE",
  disabled_reason: null,
  rate_limit: null,
  event_types: ["order.paid"],
  filter: null,
  verification_next_attempt_at: null,
  verification_last_error: null,
  created_at: ago(86_400),
} as unknown as Endpoint;

const delivery = {
  id: "dlv_1",
  event_id: "evt_1",
  event_type: "order.paid",
  endpoint_id: "ep_1",
  state: "QUEUED",
  reason: null,
  cycle: 1,
  attempt_count: 0,
  next_attempt_at: null,
  workflow_id: null,
  created_at: ago(90),
  delivered_at: null,
  expires_at: null,
} as unknown as Delivery;

const queued: DeliveryFacts = {
  delivery,
  attempts: [],
  endpoint,
  slowUntil: undefined,
  pause: undefined,
  verificationPause: undefined,
  waitingBefore: 7,
};
const failed = { started_at: ago(60), duration_ms: 20, status: 503, error: "status" as const };
const retrying: DeliveryFacts = {
  ...queued,
  delivery: {
    ...delivery,
    state: "RETRYING",
    attempt_count: 3,
    next_attempt_at: ahead(65),
    workflow_id: "dlv_1",
  },
  attempts: [failed],
};

describe("a delivery", () => {
  const cases: readonly (readonly [Cause, DeliveryFacts, Surroundings, readonly string[]])[] = [
    [
      "queued",
      queued,
      around,
      ["accepted 2026-11-25 02:58:30 UTC (1 min 30 s ago)", "7 of the tenant's deliveries"],
    ],
    [
      "attempt_in_progress",
      { ...queued, delivery: { ...delivery, workflow_id: "dlv_1" } },
      around,
      ["claimed"],
    ],
    ["tenant_held", queued, held, ["on hold since", "signet tenant release ten_1"]],
    ["tenant_erased", queued, { ...held, tenant: { ...tenant, erased_at: ago(9) } }, ["erased"]],
    ["no_worker", queued, noWorker, ["No worker is alive", "5 min ago", "signet worker"]],
    ["queued", queued, noTemporal, []],
    ["temporal_unreachable", retrying, noTemporal, ["Temporal is unreachable", "signet doctor"]],
    [
      "workflow_paused",
      { ...retrying, pause },
      around,
      [
        "workflow dlv_1 is paused in Temporal since 2026-11-25 02:50:00 UTC (10 min ago)",
        "The reason given is: receiver moves.",
        "temporal workflow unpause --namespace signet --workflow-id dlv_1",
      ],
    ],
    ["tenant_held", { ...retrying, pause: { namespace: "signet", since: undefined, reason: "" } }, held, []],
    [
      "endpoint_not_verified",
      { ...queued, endpoint: { ...endpoint, state: "PENDING", verification_next_attempt_at: ahead(30) } },
      around,
      ["not verified", "next ping is due 2026-11-25 03:00:30 UTC (in 30 s)", "signet endpoint verify ep_1"],
    ],
    [
      "workflow_paused",
      { ...queued, endpoint: { ...endpoint, state: "PENDING" }, verificationPause: pause },
      around,
      [
        "not verified",
        "The workflow of the endpoint's verification verify/ep_1/2 is paused in Temporal since",
        "(10 min ago), so no ping is sent. The reason given is: receiver moves.",
        "temporal workflow unpause --namespace signet --workflow-id verify/ep_1/2",
      ],
    ],
    [
      "endpoint_disabled",
      { ...retrying, endpoint: { ...endpoint, state: "DISABLED", disabled_reason: "gone" } },
      around,
      ["410 Gone", "dead letter when its next attempt is due", "signet endpoint enable ep_1"],
    ],
    // An endpoint that was disabled for failing still gets the retries of deliveries that have begun.
    [
      "retry_scheduled",
      { ...retrying, endpoint: { ...endpoint, state: "DISABLED", disabled_reason: "failing" } },
      around,
      [],
    ],
    ["endpoint_deleted", { ...queued, endpoint: undefined }, around, ["endpoint ep_1", "deleted"]],
    [
      "rate_limited",
      {
        ...queued,
        endpoint: { ...endpoint, rate_limit: 5 },
        delivery: { ...delivery, workflow_id: "dlv_1" },
      },
      around,
      ["5 deliveries per second"],
    ],
    [
      "endpoint_slow",
      { ...queued, slowUntil: ahead(40) },
      around,
      ["slow or failing within the last minute", "(in 40 s)"],
    ],
    [
      "retry_scheduled",
      retrying,
      around,
      [
        "The last attempt (3 of 17) began 2026-11-25 02:59:00 UTC (1 min ago): the receiver answered 503.",
        "Attempt 4 of 17 is due 2026-11-25 03:01:05 UTC (in 1 min 5 s)",
        "signet delivery retry dlv_1",
      ],
    ],
    [
      "retry_overdue",
      { ...retrying, delivery: { ...retrying.delivery, next_attempt_at: ago(120) } },
      around,
      ["was due", "2 min ago", "workers are behind", "signet doctor"],
    ],
    [
      "attempt_in_progress",
      {
        ...retrying,
        attempts: [failed, { started_at: ago(1), duration_ms: null, status: null, error: null }],
      },
      around,
      ["An attempt is in progress now."],
    ],
    [
      "dead_letter",
      {
        ...retrying,
        delivery: {
          ...retrying.delivery,
          state: "DEAD_LETTERED",
          reason: "attempts_exhausted",
          attempt_count: 17,
          expires_at: ahead(86_400 * 6),
        },
      },
      // A hold or a missing worker changes nothing for a delivery that has ended.
      { ...held, workers: noWorker.workers },
      ["all 17 attempts failed", "replayed until 2026-12-01", "(in 6 d)", "signet dlq replay dlv_1"],
    ],
    [
      "delivered",
      { ...retrying, delivery: { ...retrying.delivery, state: "DELIVERED", delivered_at: ago(30) } },
      noWorker,
      ["delivered", "1 min after its acceptance"],
    ],
    ["expired", { ...retrying, delivery: { ...retrying.delivery, state: "EXPIRED" } }, around, ["7 days"]],
    [
      "cancelled",
      { ...retrying, delivery: { ...retrying.delivery, state: "CANCELLED" } },
      around,
      ["cancelled"],
    ],
    [
      "content_erased",
      { ...retrying, delivery: { ...retrying.delivery, state: "CANCELLED", reason: "content_erased" } },
      around,
      ["content was erased"],
    ],
  ];

  test.each(cases)("is explained by %s (%#)", (cause, facts, surroundings, parts) => {
    const explanation = explainDelivery(facts, surroundings);
    expect(explanation.cause).toBe(cause);
    const text = paragraph(explanation);
    for (const part of parts) {
      expect(text).toContain(part);
    }
    expect(text).not.toContain("token=secret");
    expect(text).not.toMatch(/undefined|null| {2}/);
    expect(explanation.advice).not.toBe("");
  });

  test("has an explanation in every state", () => {
    const states = new Set(
      cases.map(
        ([
          ,
          {
            delivery: { state },
          },
        ]) => state,
      ),
    );
    expect([...states].sort()).toEqual([...DELIVERY_STATES].sort());
  });

  test("waits until the next attempt, or until nobody knows when", () => {
    expect(explainDelivery(retrying, around).waitsUntil).toEqual(ahead(65));
    expect(explainDelivery(queued, held).waitsUntil).toBeNull();
  });
});

describe("an endpoint", () => {
  const activity: ReportedActivity = {
    health: "healthy",
    health_since: null,
    results: "1",
    failing_since: null,
    lastFailure: { at: ago(30), status: null, error: "timeout" },
    retrying: 12,
    dead: 7,
    recent: { since: ago(3_600), attempts: 20, failed: 19 },
  };

  test.each<readonly [Cause, Partial<EndpointFacts["endpoint"]>, object, Surroundings, string]>([
    ["healthy", {}, {}, around, "It works."],
    ["not_attempted", {}, { results: "" }, around, "whether it works is unknown"],
    ["healthy", {}, { health: "degraded" }, around, "some of its last 20 attempts failed"],
    [
      "endpoint_failing",
      {},
      { health: "failing", failing_since: ago(7_200) },
      around,
      "failed since 2026-11-25 01:00:00 UTC (2 h ago)",
    ],
    ["endpoint_slow", {}, { slowUntil: ahead(20) }, around, "one after another"],
    [
      "endpoint_not_verified",
      { state: "PENDING", verification_last_error: "timeout" },
      {},
      around,
      "timeout",
    ],
    ["workflow_paused", { state: "PENDING" }, { pause }, around, "verification verify/ep_1/2 is paused"],
    ["temporal_unreachable", { state: "PENDING" }, {}, noTemporal, "pings and replay jobs wait for it"],
    ["healthy", {}, {}, noTemporal, "It works."],
    [
      "endpoint_disabled",
      { state: "DISABLED", disabled_reason: "failing" },
      {},
      around,
      "failed for too long",
    ],
    ["tenant_held", {}, {}, held, "on hold"],
    ["no_worker", {}, {}, noWorker, "No worker"],
  ])("is explained by %s (%#)", (...[cause, changed, active, surroundings, part]) => {
    const slowUntil = "slowUntil" in active ? (active.slowUntil as Date) : undefined;
    const paused = "pause" in active ? (active.pause as typeof pause) : undefined;
    const facts = {
      endpoint: { ...endpoint, ...changed },
      activity: { ...activity, ...active } as ReportedActivity,
      slowUntil,
      pause: paused,
    };
    const explanation = explainEndpoint(facts, surroundings);
    expect(explanation.cause).toBe(cause);
    const text = paragraph(explanation);
    expect(text).toContain(part);
    expect(text).toContain("Endpoint ep_1 (https://receiver.example/hooks)");
    expect(text).toContain("1 of 20 attempts of the last hour succeeded");
    expect(text).toContain("12 deliveries wait for a retry, and 7 are dead letters");
    expect(text).toContain("(30 s ago): the receiver did not answer in time");
  });
});

describe("an event", () => {
  const event = {
    id: "evt_1",
    tenant_id: "ten_1",
    type: "order.paid",
    source_id: null,
    occurred_at: ago(60),
    created_at: ago(60),
    deliveries: 0,
    content_erased_at: null,
  };

  test.each<readonly [Cause, readonly Partial<Endpoint>[], string]>([
    ["no_endpoint", [], "had none of its current endpoints"],
    ["no_endpoint", [{ created_at: ago(5) }], "had none of its current endpoints"],
    ["not_subscribed", [{ event_types: ["order.failed"] }, {}].slice(0, 1), "subscribes to order.paid"],
    [
      "filter_excluded",
      [{ filter: "{}" }, { event_types: ["*"], filter: "{}" }],
      "filters of all 2 endpoints",
    ],
    ["no_endpoint", [{ filter: "{}" }, { state: "PENDING" }], "none was verified then"],
  ])("without deliveries is explained by %s (%#)", (cause, endpoints, part) => {
    const explanation = explainEvent(
      { event, deliveries: {}, endpoints: endpoints.map((changed) => ({ ...endpoint, ...changed })) },
      around,
    );
    expect(explanation.cause).toBe(cause);
    expect(paragraph(explanation)).toContain(part);
  });

  test("with deliveries has their states", () => {
    const explanation = explainEvent(
      { event, deliveries: { DELIVERED: 2, RETRYING: 1 }, endpoints: [] },
      around,
    );
    expect(explanation.cause).toBe("matched");
    expect(paragraph(explanation)).toContain("2 DELIVERED, 1 RETRYING");
  });
});

describe("a tenant", () => {
  const flowing = { waiting: 0, oldest_waiting: null, overdue: 0, most_overdue: null };
  const suspended = { ...around, tenant: { ...tenant, state: "SUSPENDED" as const } };

  test.each<readonly [Cause, object, Surroundings, string]>([
    ["healthy", {}, around, "flow"],
    ["behind", { waiting: 40, oldest_waiting: ago(120) }, around, "40 deliveries wait for a worker"],
    ["healthy", { waiting: 40, oldest_waiting: ago(2) }, around, "40 deliveries wait for a worker"],
    ["behind", { overdue: 3, most_overdue: ago(600) }, around, "3 retries are overdue, the first since"],
    ["tenant_held", {}, held, "on hold"],
    ["no_worker", {}, noWorker, "No worker"],
    ["endpoint_failing", { failing: ["ep_7", "ep_8"] }, around, "2 of its endpoints fail: ep_7, ep_8"],
    ["tenant_suspended", {}, suspended, "signet tenant resume ten_1"],
  ])("is explained by %s (%#)", (cause, changed, surroundings, part) => {
    const endpoints = [{ state: "ACTIVE" }, { state: "DISABLED" }] as const;
    const { failing = [], ...lag } = changed as { readonly failing?: readonly string[] };
    const facts = { lag: { ...flowing, ...lag }, endpoints, failing };
    const explanation = explainTenant(facts, surroundings);
    expect(explanation.cause).toBe(cause);
    expect(paragraph(explanation)).toContain(part);
    expect(paragraph(explanation)).toContain("newest 2 endpoints, 1 are active, 0 unverified and 1 disabled");
  });
});

test("times are given with their distance, in at most two units", () => {
  expect(lengthText(93_784_000)).toBe("1 d 2 h");
  expect(lengthText(400)).toBe("less than a second");
  expect(instantText(ahead(61), NOW)).toBe("2026-11-25 03:01:01 UTC (in 1 min 1 s)");
});
