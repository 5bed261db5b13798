import { decodeTypedSearchAttributes } from "@temporalio/common/lib/converter/payload-search-attributes.js";
import { beforeAll, describe, expect, test } from "vitest";
import { SEARCH_ATTRIBUTES, verifyWorkflowId } from "#workflows/messages.ts";
import { eventually } from "../support/eventually.ts";
import {
  countEvents,
  detailsOf,
  fetchRuns,
  type HistoryEvent,
  type RunHistory,
  summariesOf,
  textOf,
} from "../support/histories.ts";
import { allowMinutes } from "../support/limits.ts";
import { withoutPause } from "../support/pauses.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { registrationOf } from "../support/registration.ts";
import { TEST_CALLER, useWorld } from "../support/world.ts";

allowMinutes(2);

// The last wait is long enough for a timer.
const made = useWorld({ retryWindowMs: 8_000 });

/** Values of tenants, receivers and the service that must never appear in Temporal. */
const CANARIES = {
  data: "canary-of-the-data",
  url: "canary-of-the-url",
  metadata: "canary-of-the-metadata",
  description: "canary-of-the-description",
  tenantName: "canary-of-the-tenant",
  responseBody: "canary-of-the-response",
  eventType: "canary.of_the_type",
} as const;

interface Story {
  readonly tenant: string;
  readonly endpoint: string;
  readonly secret: string;
  readonly delivery: string;
  readonly carrier: string;
  readonly receiver: Receiver;
  /** The dead letter's details in Temporal's UI. */
  readonly details: string;
  /** Runs of the first carrier: 17 failures, then the quiet week. */
  readonly first: readonly RunHistory[];
  /** Runs of every workflow involved. */
  readonly all: readonly RunHistory[];
}

let story: Story;

/** Registers and verifies an endpoint; a delivery fails 17 times, is replayed, and succeeds. */
async function tell(): Promise<Story> {
  const world = made.current;
  const tenant = await world.createTenant();
  await world.sql.query("UPDATE tenants SET name = $2 WHERE id = $1", [tenant, CANARIES.tenantName]);
  const receiver = await startReceiver();
  const registered = await world.endpoints.register(
    tenant,
    registrationOf(`${receiver.url}/${CANARIES.url}`, {
      event_types: [CANARIES.eventType],
      metadata: JSON.stringify({ canary: CANARIES.metadata }),
      description: CANARIES.description,
    }),
    TEST_CALLER,
  );
  const endpoint = registered.endpoint.id;
  await eventually(
    async () => (await world.endpoints.find(tenant, endpoint)).state === "ACTIVE",
    "the endpoint's verification",
  );
  receiver.answer([{ kind: "answer", status: 500, body: CANARIES.responseBody }]);
  const { deliveries } = await world.publish(tenant, { canary: CANARIES.data }, CANARIES.eventType);
  const delivery = deliveries[0]?.id ?? "";
  await world.untilDelivery(tenant, delivery, ({ state }) => state === "DEAD_LETTERED");
  const handle = world.temporal.workflow.getHandle(delivery);
  await eventually(async () => {
    const { workflowExecutionInfo: info } = (await handle.describe()).raw;
    return info?.firstRunId !== info?.execution?.runId;
  }, "the quiet run");
  const details = await detailsOf(world, delivery);
  receiver.answer([{ kind: "answer", body: CANARIES.responseBody }]);
  await handle.signal("replay", { by: "operator" });
  const replayed = await world.untilDelivery(tenant, delivery, ({ state }) => state === "DELIVERED");
  const carrier = replayed.workflow_id ?? "";
  await Promise.all([delivery, carrier].map(async (id) => await world.temporal.workflow.result(id)));
  const first = await fetchRuns(world, delivery);
  const others = await Promise.all(
    [carrier, verifyWorkflowId(endpoint, 1)].map(async (id) => await fetchRuns(world, id)),
  );
  const all = [...first, ...others.flat()];
  return { tenant, endpoint, secret: registered.secret, delivery, carrier, receiver, details, first, all };
}

beforeAll(async () => {
  await made.current.startWorker();
  story = await withoutPause(async () => {
    const told = await tell();
    // An attempt that is not answered within a second has a further activity.
    if (told.first.flatMap(summariesOf).some((summary) => summary.endsWith(", not answered at once"))) {
      await told.receiver.close();
      throw new Error("the first attempt was not answered within a second");
    }
    return told;
  });
  return async () => await story.receiver.close();
});

function attributesOf(event: HistoryEvent | undefined, member: string): Record<string, unknown> {
  const { searchAttributes } = (event?.[member] ?? {}) as {
    searchAttributes?: { indexedFields?: Record<string, { metadata: object; data: string }> };
  };
  const fields = Object.entries(searchAttributes?.indexedFields ?? {}).map(([name, { metadata, data }]) => {
    const decoded = Object.entries(metadata).map(([key, value]) => [
      key,
      Buffer.from(String(value), "base64"),
    ]);
    return [name, { metadata: Object.fromEntries(decoded) as object, data: Buffer.from(data, "base64") }];
  });
  const typed = decodeTypedSearchAttributes(Object.fromEntries(fields) as never);
  return Object.fromEntries(
    Object.entries(SEARCH_ATTRIBUTES).flatMap(([name, key]) => {
      const value: unknown = typed.get(key);
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

const started = (run: RunHistory | undefined): Record<string, unknown> =>
  attributesOf(run?.events[0], "workflowExecutionStartedEventAttributes");

function upserts(run: RunHistory | undefined): Record<string, unknown>[] {
  return (
    (run?.events ?? [])
      .filter(({ eventType }) => eventType === "EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES")
      .map((event) => attributesOf(event, "upsertWorkflowSearchAttributesEventAttributes"))
      // A patch's own attribute.
      .filter((attributes) => Object.keys(attributes).length > 0)
  );
}

describe("the search attributes of a carrier", () => {
  test("name tenant, endpoint and delivery from the start, and the state that it starts in", () => {
    expect(started(story.first[0])).toEqual({
      tenant: [story.tenant],
      endpoint: [story.endpoint],
      delivery: [story.delivery],
      state: "QUEUED",
      open: 1,
      attempt: 1,
    });
  });

  test("follow at attempts 2, 5, 9, 13 and 17 and at the dead letter, with only the changed values", () => {
    expect(upserts(story.first[0])).toEqual([
      { state: "RETRYING", attempt: 2 },
      { attempt: 5 },
      { attempt: 9 },
      { attempt: 13 },
      { attempt: 17 },
      { state: "DEAD_LETTERED", dead: 1, expires: expect.any(Date) as Date },
    ]);
  });

  test("survive in the run of its own type that a dead letter continues in", () => {
    expect(story.first[1]?.events[0]?.["workflowExecutionStartedEventAttributes"]).toMatchObject({
      workflowType: { name: "deadLetter" },
    });
    expect(started(story.first[1])).toEqual({
      tenant: [story.tenant],
      endpoint: [story.endpoint],
      delivery: [story.delivery],
      state: "DEAD_LETTERED",
      open: 1,
      attempt: 17,
      dead: 1,
      expires: expect.any(Date) as Date,
    });
    expect(upserts(story.first[1])).toEqual([]);
  });

  test("show the start of a new cycle", () => {
    const fresh = story.all[story.first.length];
    expect(started(fresh)).toMatchObject({
      delivery: [story.delivery],
      state: "QUEUED",
      open: 1,
      attempt: 1,
    });
  });
});

describe("the history of a delivery that failed 17 times", () => {
  test("is one run of at most 200 events, continued once, into a run of a handful", () => {
    expect(story.first).toHaveLength(2);
    expect(story.first[0]?.events.length).toBeLessThanOrEqual(200);
    expect(story.first[1]?.events.length).toBeLessThanOrEqual(20);
  });

  test("has 16 activities and two markers: the first attempt is a local activity, and a patch moves the dead letter", () => {
    const events = story.first[0]?.events ?? [];
    expect(countEvents(events, "ACTIVITY_TASK_SCHEDULED")).toBe(16);
    expect(countEvents(events, "MARKER_RECORDED")).toBe(2);
    expect(countEvents(events, "ACTIVITY_TASK_FAILED")).toBe(0);
    expect(countEvents(events, "WORKFLOW_TASK_FAILED")).toBe(0);
  });

  test("keeps the workflow task timeout in the quiet run", () => {
    const attributes = story.first[1]?.events[0]?.["workflowExecutionStartedEventAttributes"];
    expect(attributes).toMatchObject({ workflowTaskTimeout: "5s" });
  });

  test("ends with details that show its state and the operator's options", () => {
    const [headline, ...lines] = story.details.split("\n");
    expect(headline).toBe(`**1 delivery** for ${story.endpoint}: 1 dead-lettered.`);
    expect(lines.find((line) => line.includes(story.delivery))).toMatch(
      / 17 of 17 \| `500` \| expires 20\d\d-/,
    );
    expect(story.details).toMatch(/--workflow-id dlv_\w+ \\\n +--name replay\n/);
  });

  test("names each attempt and each wait", () => {
    const summaries = story.first.flatMap(summariesOf);
    for (let attempt = 2; attempt <= 17; attempt += 1) {
      expect(summaries).toContain(`ACTIVITY_TASK_SCHEDULED: attempt ${attempt} of 17`);
    }
    // In so short a window, the first gaps end before a timer is set.
    expect(summaries).toContain("TIMER_STARTED: until attempt 17 of 17, last 500");
    expect(summaries).toContain("TIMER_STARTED: the dead-letter week");
  });
});

describe("the data in Temporal", () => {
  test("is ids, readable in a history", () => {
    const text = textOf(story.all);
    for (const id of [story.tenant, story.endpoint, story.delivery, story.carrier]) {
      expect(text).toContain(id);
    }
  });

  test("is no payload, secret, URL, metadata, name or response, although all reached their receiver", () => {
    const received = story.receiver.requests.map(
      ({ path, rawBody }) => `${path} ${rawBody.toString("utf8")}`,
    );
    for (const sent of [CANARIES.data, CANARIES.url, CANARIES.metadata, CANARIES.eventType]) {
      expect(received.join("\n")).toContain(sent);
    }
    const text = textOf(story.all);
    for (const canary of [
      ...Object.values(CANARIES),
      story.secret,
      story.secret.slice(6),
      story.receiver.url,
    ]) {
      expect(text).not.toContain(canary);
    }
  });
});
