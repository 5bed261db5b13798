/** Accepting events: their recipients, the answers to batches, and the number of commits. */
import { Client } from "pg";
import { describe, expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import {
  anId,
  anInstant,
  createEndpoint,
  createTenant,
  type Json,
  listAll,
  publish,
  rows,
  sql,
  type Tenant,
} from "#test/support/tenant.ts";

const api = useSharedApi();
const EVENTS = "/v1/events";
const ENDPOINTS = "/v1/webhooks/endpoints";
const EVENT: Json = { type: "a.b", data: {} };

/** Returns endpoint and state of an event's deliveries, ordered by endpoint. */
async function deliveriesOf(tenant: Tenant, eventId: string): Promise<unknown[]> {
  const found = await listAll(tenant, `/v1/webhooks/deliveries?event_id=${eventId}`, 100);
  return found
    .map((delivery): [string, string] => [String(delivery["endpoint_id"]), String(delivery["state"])])
    .sort(([left], [right]) => (left < right ? -1 : 1));
}

async function published(tenant: Tenant, type: string): Promise<Json> {
  const { status, body } = await tenant.post(EVENTS, { type, data: {} });
  expect(status).toBe(202);
  return body;
}

describe("an event goes", () => {
  test("nowhere if no endpoint wants it, and is stored nevertheless", async () => {
    const tenant = await createTenant(api);
    await createEndpoint(api, tenant, { events: ["c.d"] });
    const event = await published(tenant, "a.b");
    expect(event["deliveries"]).toBe(0);
    expect(await deliveriesOf(tenant, String(event["id"]))).toEqual([]);
    expect(await tenant.get(`${EVENTS}/${String(event["id"])}`)).toMatchObject({
      status: 200,
      body: { deliveries: 0 },
    });
  });

  test("once to each active or disabled endpoint that takes its type, and to no other", async () => {
    const tenant = await createTenant(api);
    const wants = async (events: string[], state?: "PENDING" | "DISABLED"): Promise<string> =>
      (await createEndpoint(api, tenant, { events, ...(state === undefined ? {} : { state }) })).id;
    const named = await wants(["a.b"]);
    const among = await wants(["x.y", "a.b", "c.d"]);
    const all = await wants(["*"]);
    const disabled = await wants(["a.b"], "DISABLED");
    const disabledAll = await wants(["*"], "DISABLED");
    await wants(["a.b"], "PENDING");
    await wants(["*"], "PENDING");
    await wants(["a.b_c", "a.b.c", "a.bb", "b.a"]);
    const deleted = await wants(["a.b"]);
    expect(await tenant.send("DELETE", `${ENDPOINTS}/${deleted}`)).toMatchObject({ status: 204 });
    const other = await createTenant(api);
    await createEndpoint(api, other, { events: ["*"] });

    const event = await published(tenant, "a.b");
    const id = String(event["id"]);
    expect(event["deliveries"]).toBe(5);
    expect(await deliveriesOf(tenant, id)).toEqual(
      [
        [named, "QUEUED"],
        [among, "QUEUED"],
        [all, "QUEUED"],
        [disabled, "DEAD_LETTERED"],
        [disabledAll, "DEAD_LETTERED"],
      ].sort(([left = ""], [right = ""]) => (left < right ? -1 : 1)),
    );
    expect(rows(await tenant.get(`/v1/webhooks/dlq?event_id=${id}`))).toMatchObject([
      { reason: "endpoint_disabled" },
      { reason: "endpoint_disabled" },
    ]);
    expect(await deliveriesOf(other, id)).toEqual([]);
  });

  test("to the workers' notice, with its tenant, and up to four deliveries, or the first of more", async () => {
    const tenant = await createTenant(api);
    const { id: endpoint } = await createEndpoint(api, tenant, { events: ["a.b", "c.d"] });
    for (let other = 1; other <= 4; other += 1) {
      await createEndpoint(api, tenant, { events: ["c.d"] });
    }
    const heard: string[] = [];
    const client = new Client({ connectionString: api.database.url });
    await client.connect();
    try {
      client.on("notification", ({ payload = "" }) => heard.push(payload));
      await client.query("LISTEN signet_outbox");
      const notified = async (type: string): Promise<{ event: Json; payload: string }> => {
        heard.splice(0);
        const event = await published(tenant, type);
        const isMine = (payload: string): boolean => payload.split(" ").includes(tenant.tenantId);
        return { event, payload: await eventually(() => heard.find(isMine), "the notification") };
      };
      const { event, payload } = await notified("a.b");
      const [delivery] = await listAll(
        tenant,
        `/v1/webhooks/deliveries?event_id=${String(event["id"])}`,
        100,
      );
      expect(delivery).toMatchObject({ endpoint_id: endpoint });
      expect(payload.replace(/ \d+ /, " turn ")).toBe(
        `1 turn ${tenant.tenantId} ${String(delivery?.["id"])}`,
      );
      expect((await notified("c.d")).payload).toMatch(/^5 \d+ ten_[0-9a-z]{24} dlv_[0-9a-z]{24}$/);
    } finally {
      await client.end();
    }
  });

  test("to all 50 endpoints that a tenant can have", async () => {
    const tenant = await createTenant(api);
    for (let endpoint = 1; endpoint <= 50; endpoint += 1) {
      await createEndpoint(api, tenant, { events: ["*"] });
    }
    const event = await published(tenant, "a.b");
    expect(event["deliveries"]).toBe(50);
    const endpoints = (await deliveriesOf(tenant, String(event["id"]))) as [string, string][];
    expect(new Set(endpoints.map(([endpoint]) => endpoint)).size).toBe(50);
  });
});

describe("a batch", () => {
  test("is answered item by item, in order; an invalid item does not affect the others", async () => {
    const tenant = await createTenant(api);
    await createEndpoint(api, tenant, { events: ["a.b"] });
    const large = { a: "x".repeat(262_144) };
    const answer = await tenant.post(EVENTS, {
      events: [
        { type: "a.b", data: { n: 0 } },
        { type: "a.b" },
        { type: "c.d", data: { n: 2 }, id: "mine" },
        "event",
        { type: "ping", data: {} },
        { type: "a.b", data: [], surprise: 1 },
        { type: "a.b", data: {}, occurred_at: "2025-02-30T00:00:00Z" },
        { type: "a.b", data: large },
        null,
        { type: "a.b", data: { n: 9 }, occurred_at: "2025-01-01T01:00:00+01:00" },
      ],
    });
    const accepted = (index: number, type: string, deliveries: number): Json => ({
      index,
      id: anId("event"),
      type,
      created_at: anInstant(),
      deliveries,
    });
    const invalid = (index: number, ...pointers: string[]): Json => ({
      index,
      error: {
        code: "VALIDATION_FAILED",
        status: 422,
        detail: expect.stringMatching(/\S/),
        errors: pointers.map((pointer) => ({
          pointer,
          code: expect.stringMatching(/^[a-z_]+$/),
          detail: expect.stringMatching(/\S/),
        })),
      },
    });
    expect(answer.body).toEqual({
      data: [
        accepted(0, "a.b", 1),
        invalid(1, "/data"),
        accepted(2, "c.d", 0),
        invalid(3, ""),
        invalid(4, "/type"),
        invalid(5, "/surprise", "/data"),
        invalid(6, "/occurred_at"),
        { index: 7, error: { code: "PAYLOAD_TOO_LARGE", status: 413, detail: expect.stringMatching(/\S/) } },
        invalid(8, ""),
        accepted(9, "a.b", 1),
      ],
    });
    expect(answer.status).toBe(202);
    const kept = await listAll(tenant, EVENTS, 100);
    const byId = new Map(kept.map((event) => [event["id"], event]));
    const items = answer.body["data"] as Json[];
    expect([0, 2, 9].map((index) => byId.get(items[index]?.["id"]))).toMatchObject([
      { data: { n: 0 }, source_id: null },
      { data: { n: 2 }, source_id: "mine" },
      { data: { n: 9 }, occurred_at: "2025-01-01T00:00:00.000Z" },
    ]);
    expect(kept).toHaveLength(3);
  });

  test("of 1,000 is accepted in a few commits of at most 250 events", async () => {
    const events = Array.from({ length: 1_000 }, (_, n) => ({ ...EVENT, data: { n } }));
    await eventually(async () => {
      const tenant = await createTenant(api);
      await createEndpoint(api, tenant, { events: ["a.b"] });
      const answer = await tenant.post(EVENTS, { events });
      expect((answer.body["data"] as Json[]).map(({ index }) => index)).toEqual(
        events.map((_, index) => index),
      );
      const { commits, ...kept } = await commitsOf(tenant);
      expect(kept).toEqual({ events: 1_000, deliveries: 1_000 });
      expect(commits).toBeGreaterThanOrEqual(4);
      // Commits are smaller for a second after the events of another tenant, such as the previous test's.
      return commits <= 5;
    }, "a batch while nobody else publishes");
  });

  test("of 4 MiB is accepted", async () => {
    const tenant = await createTenant(api);
    const events = Array.from({ length: 16 }, () => ({ ...EVENT, data: { a: "x".repeat(261_000) } }));
    const answer = await tenant.post(EVENTS, { events });
    expect((answer.body["data"] as Json[]).filter((item) => "error" in item)).toEqual([]);
    expect((await commitsOf(tenant)).events).toBe(16);
  });
});

/** Returns a tenant's events and deliveries, and the number of transactions that wrote them. */
async function commitsOf({
  tenantId,
}: Tenant): Promise<{ events: number; deliveries: number; commits: number }> {
  const [counted] = await sql<{ events: string; commits: string }>(
    api,
    "SELECT count(*) AS events, count(DISTINCT xmin::text) AS commits FROM events WHERE tenant_id = $1",
    [tenantId],
  );
  const deliveries = await sql(api, "SELECT FROM deliveries WHERE tenant_id = $1", [tenantId]);
  return {
    events: Number(counted?.events),
    commits: Number(counted?.commits),
    deliveries: deliveries.length,
  };
}

/** Blocks commits of events. The returned function releases them once one waits, the most that a tenant can have. */
async function blockCommits(): Promise<() => Promise<void>> {
  const blocker = new Client({ connectionString: api.database.adminUrl });
  await blocker.connect();
  await blocker.query("BEGIN");
  await blocker.query("LOCK TABLE events IN SHARE MODE");
  return async () => {
    await eventually(
      async () =>
        (await sql(api, "SELECT FROM pg_locks WHERE NOT granted AND relation = 'events'::regclass"))
          .length === 1,
      "a commit to wait for the table",
    );
    // These answers come after the requests that have arrived by now.
    for (let round = 0; round < 3; round += 1) {
      await api.request("/healthz");
    }
    await blocker.query("COMMIT");
    await blocker.end();
  };
}

describe("concurrent requests", () => {
  test("of 500 publishers that wait for the database share a few commits, and every event arrives", async () => {
    const tenant = await createTenant(api);
    await createEndpoint(api, tenant, { events: ["a.b"] });
    const release = await blockCommits();
    const publishing = Promise.all(
      Array.from({ length: 500 }, async (_, n) => await tenant.post(EVENTS, { ...EVENT, data: { n } })),
    );
    await release();
    const answers = await publishing;
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
    const kept = await commitsOf(tenant);
    expect(kept).toMatchObject({ events: 500, deliveries: 500 });
    expect(kept.commits).toBeLessThan(50);
    const shown = await listAll(tenant, EVENTS, 100);
    expect(new Set(shown.map(({ id }) => id))).toEqual(new Set(answers.map(({ body }) => body["id"])));
    const numbers = shown.map(({ data }) => (data as { n: number }).n).sort((left, right) => left - right);
    expect(numbers).toEqual(Array.from({ length: 500 }, (_, n) => n));
  });

  test("of many tenants share commits and remain separate", async () => {
    const tenants = await Promise.all(Array.from({ length: 5 }, async () => await createTenant(api)));
    await Promise.all(tenants.map(async (tenant) => await createEndpoint(api, tenant, { events: ["a.b"] })));
    await Promise.all(
      Array.from({ length: 50 }, async (_, n) => {
        const tenant = tenants[n % tenants.length];
        return tenant === undefined
          ? ""
          : await publish(tenant, { type: "a.b", data: { owner: tenant.tenantId } });
      }),
    );
    for (const tenant of tenants) {
      const owners = (await listAll(tenant, EVENTS, 100)).map(({ data }) => (data as Json)["owner"]);
      expect(owners).toEqual(Array.from({ length: 10 }, () => tenant.tenantId));
      expect((await commitsOf(tenant)).deliveries).toBe(10);
    }
  });

  test("with large events are spread over commits of bounded size", async () => {
    const tenant = await createTenant(api);
    const release = await blockCommits();
    const data = { a: "x".repeat(250_000) };
    const publishing = Promise.all(
      Array.from({ length: 60 }, async () => await tenant.post(EVENTS, { ...EVENT, data })),
    );
    await release();
    expect(new Set((await publishing).map(({ status }) => status))).toEqual(new Set([202]));
    const { events, commits } = await commitsOf(tenant);
    expect(events).toBe(60);
    // 15 MB, at 4 MiB per commit.
    expect(commits).toBeGreaterThanOrEqual(4);
  });

  test("to register 60 endpoints create 50, the most that a tenant can have", async () => {
    const tenant = await createTenant(api);
    const body = { url: "https://example.com/hook", events: ["a.b"] };
    const answers = await Promise.all(
      Array.from({ length: 60 }, async () => await tenant.post(ENDPOINTS, body)),
    );
    const made = answers.filter(({ status }) => status === 201);
    const refused = answers.filter(({ status }) => status !== 201);
    expect([made.length, refused.length]).toEqual([50, 10]);
    expect(new Set(refused.map((answer) => `${answer.status} ${String(answer.body["code"])}`))).toEqual(
      new Set(["422 LIMIT_EXCEEDED"]),
    );
    expect(new Set(made.map((answer) => answer.body["secret"])).size).toBe(50);
    expect(await listAll(tenant, ENDPOINTS, 100)).toHaveLength(50);

    const [first] = made;
    await tenant.send("DELETE", `${ENDPOINTS}/${String(first?.body["id"])}`);
    expect(await tenant.post(ENDPOINTS, body)).toMatchObject({ status: 201 });
    expect(await tenant.post(ENDPOINTS, body)).toMatchObject({ status: 422 });
  });
});
