/** The dead-letter queue: its contents, their lifetime, and replays (contract 3 and 4). */
import { randomBytes } from "node:crypto";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { newId } from "#domain/ids.ts";
import { useTestApi } from "#test/support/api.ts";
import {
  anId,
  anInstant,
  createEndpoint,
  createTenant,
  expectRefusal,
  type Json,
  publish,
  renew,
  rows,
  sql,
  type Tenant,
} from "#test/support/tenant.ts";

const api = useTestApi();
const WEEK_MS = 7 * 86_400_000;
const DELIVERIES = "/v1/webhooks/deliveries";
const DLQ = "/v1/webhooks/dlq";
let tenant: Tenant;
let endpointId: string;

beforeAll(async () => {
  tenant = await createTenant(api);
  endpointId = (await createEndpoint(api, tenant, { state: "DISABLED" })).id;
});

/** Publishes an event whose delivery is a dead letter immediately, since its endpoint is disabled. */
async function deadLetter(data: Json = {}): Promise<{ readonly id: string; readonly eventId: string }> {
  const eventId = await publish(tenant, { data });
  const [delivery] = rows(await tenant.get(`${DELIVERIES}?event_id=${eventId}`));
  return { id: String(delivery?.["id"]), eventId };
}

async function setState(id: string, state: string): Promise<void> {
  await sql(api, "UPDATE deliveries SET state = $2 WHERE id = $1", [id, state]);
}

describe("an event for a disabled endpoint", () => {
  test("becomes a dead letter immediately, with its reason, its event and a lifetime of a week", async () => {
    const { id, eventId } = await deadLetter({ n: 1 });
    const { body } = await tenant.get(`${DLQ}/${id}`);
    expect(body).toEqual({
      id,
      event_id: eventId,
      event_type: "inference.completed",
      endpoint_id: endpointId,
      state: "DEAD_LETTERED",
      reason: "endpoint_disabled",
      cycle: 1,
      attempt_count: 0,
      next_attempt_at: null,
      last_status: null,
      last_error: null,
      workflow_id: null,
      created_at: anInstant(),
      delivered_at: null,
      dead_lettered_at: body["created_at"],
      expires_at: anInstant(),
      event: {
        id: eventId,
        type: "inference.completed",
        source_id: null,
        occurred_at: anInstant(),
        created_at: body["created_at"],
        deliveries: 1,
        content_erased_at: null,
        data: { n: 1 },
      },
    });
    expect(Date.parse(String(body["expires_at"])) - Date.parse(String(body["created_at"]))).toBe(WEEK_MS);
    expect(rows(await tenant.get(`${DLQ}?event_id=${eventId}`))).toEqual([body]);
  });

  test("is still shown after its event was deleted", async () => {
    const { id, eventId } = await deadLetter();
    await sql(api, "DELETE FROM events WHERE id = $1", [eventId]);
    expect(await tenant.get(`${DLQ}/${id}`)).toMatchObject({ status: 200, body: { id, event: null } });
    expect(rows(await tenant.get(`${DLQ}?event_id=${eventId}`))).toMatchObject([{ id, event: null }]);
  });
});

describe("the queue", () => {
  test.each(["QUEUED", "RETRYING", "DELIVERED", "CANCELLED"])(
    "neither contains nor replays a delivery in state %s",
    async (state) => {
      const { id, eventId } = await deadLetter();
      await setState(id, state);
      expectRefusal(await tenant.get(`${DLQ}/${id}`), 404, "NOT_FOUND");
      expect(rows(await tenant.get(`${DLQ}?event_id=${eventId}`))).toEqual([]);
      const refused = await tenant.post(`${DLQ}/${id}/replay`);
      expectRefusal(refused, 409, "INVALID_STATE");
      expect(refused.body["detail"]).toContain(state);
      expect(await tenant.get(`${DELIVERIES}/${id}`)).toMatchObject({
        status: 200,
        body: { state, cycle: 1 },
      });
    },
  );

  test("does not find an unknown id", async () => {
    const id = newId("delivery", Date.now(), randomBytes);
    expectRefusal(await tenant.get(`${DLQ}/${id}`), 404, "NOT_FOUND");
    expectRefusal(await tenant.post(`${DLQ}/${id}/replay`), 404, "NOT_FOUND");
  });

  test("matches only DEAD_LETTERED in its filter by state", async () => {
    const { id, eventId } = await deadLetter();
    expect(rows(await tenant.get(`${DLQ}?event_id=${eventId}&state=DEAD_LETTERED`))).toMatchObject([{ id }]);
    expect(rows(await tenant.get(`${DLQ}?event_id=${eventId}&state=DELIVERED`))).toEqual([]);
  });
});

describe("a replay", () => {
  const setEndpoint = async (state: string): Promise<void> => {
    await sql(api, "UPDATE endpoints SET state = $2 WHERE id = $1", [endpointId, state]);
  };
  afterEach(async () => {
    await setEndpoint("DISABLED");
  });

  test("resets the delivery to the start of the next cycle", async () => {
    const { id, eventId } = await deadLetter();
    await setEndpoint("ACTIVE");
    const { status, body } = await tenant.post(`${DLQ}/${id}/replay`);
    expect({ status, body }).toEqual({
      status: 202,
      body: {
        id,
        event_id: eventId,
        event_type: "inference.completed",
        endpoint_id: endpointId,
        state: "QUEUED",
        cycle: 2,
        attempt_count: 0,
        next_attempt_at: null,
        last_status: null,
        last_error: null,
        workflow_id: null,
        created_at: anInstant(),
        delivered_at: null,
        dead_lettered_at: null,
        expires_at: null,
      },
    });
    expect((await tenant.get(`${DELIVERIES}/${id}`)).body).toEqual(body);
    expectRefusal(await tenant.get(`${DLQ}/${id}`), 404, "NOT_FOUND");
  });

  test("requested twenty times concurrently happens once", async () => {
    const { id } = await deadLetter();
    await setEndpoint("ACTIVE");
    const answers = await Promise.all(
      Array.from({ length: 20 }, async () => await tenant.post(`${DLQ}/${id}/replay`)),
    );
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 202)).toHaveLength(1);
    expect(statuses.filter((status) => status === 409)).toHaveLength(19);
    expect((await tenant.get(`${DELIVERIES}/${id}`)).body["cycle"]).toBe(2);
  });
});

describe("attempts", () => {
  test("are listed in chronological order over all cycles, each with every field", async () => {
    const { id } = await deadLetter();
    expect(await tenant.get(`${DELIVERIES}/${id}/attempts`)).toMatchObject({
      status: 200,
      body: { data: [] },
    });
    const made = [
      [2, 1, 5, null, "timeout", null],
      [1, 2, 7, 503, "status", "busy"],
      [1, 10, 8, null, "connect", null],
      [2, 2, null, null, null, null],
      [1, 1, 6, 500, "status", "\u00e9 <b>"],
    ] as const;
    for (const [cycle, attempt, ms, status, error, body] of made) {
      await sql(
        api,
        `INSERT INTO attempts (day, delivery_id, cycle, attempt, id, tenant_id, started_at, duration_ms, status, error, response_body)
          SELECT day, id, $2, $3, $4, tenant_id, now(), $5, $6, $7, $8 FROM deliveries WHERE id = $1`,
        [id, cycle, attempt, newId("attempt", Date.now(), randomBytes), ms, status, error, body],
      );
    }
    const order = [4, 1, 2, 0, 3];
    expect(rows(await tenant.get(`${DELIVERIES}/${id}/attempts`))).toEqual(
      order.map((index) => {
        const [cycle, attempt, ms, status, error, body] = made[index] ?? made[0];
        return {
          id: anId("attempt"),
          cycle,
          attempt,
          started_at: anInstant(),
          duration_ms: ms,
          status,
          error,
          response_body: body,
        };
      }),
    );
  });
});

describe("after a week", () => {
  test("a dead letter is EXPIRED by the clock alone, and can no longer be replayed", async () => {
    const { id, eventId } = await deadLetter();
    const expiresAt = Date.parse(String((await tenant.get(`${DLQ}/${id}`)).body["expires_at"]));

    api.clock.advance(expiresAt - api.clock.now() - 30_000);
    tenant = await renew(api, tenant);
    expect(await tenant.get(`${DLQ}/${id}`)).toMatchObject({ status: 200, body: { state: "DEAD_LETTERED" } });
    expect(rows(await tenant.get(`${DELIVERIES}?event_id=${eventId}&state=EXPIRED`))).toEqual([]);

    api.clock.advance(30_000);
    expectRefusal(await tenant.get(`${DLQ}/${id}`), 410, "DLQ_ENTRY_EXPIRED");
    expectRefusal(await tenant.post(`${DLQ}/${id}/replay`), 410, "DLQ_ENTRY_EXPIRED");
    expect(rows(await tenant.get(`${DLQ}?event_id=${eventId}`))).toEqual([]);
    expect(await tenant.get(`${DELIVERIES}/${id}`)).toMatchObject({
      status: 200,
      body: { id, state: "EXPIRED" },
    });
    expect(rows(await tenant.get(`${DELIVERIES}?event_id=${eventId}&state=EXPIRED`))).toMatchObject([{ id }]);
    expect(rows(await tenant.get(`${DELIVERIES}?event_id=${eventId}&state=DEAD_LETTERED`))).toEqual([]);
  });

  test("a dead letter that a worker has marked as EXPIRED gets the same answers", async () => {
    const { id } = await deadLetter();
    await setState(id, "EXPIRED");
    expectRefusal(await tenant.get(`${DLQ}/${id}`), 410, "DLQ_ENTRY_EXPIRED");
    expectRefusal(await tenant.post(`${DLQ}/${id}/replay`), 410, "DLQ_ENTRY_EXPIRED");
  });
});

describe("a list with large events", () => {
  const EVENTS = 12;
  let large: Tenant;
  beforeAll(async () => {
    large = await createTenant(api);
    await createEndpoint(api, large, { state: "DISABLED" });
    for (let count = 0; count < EVENTS; count += 1) {
      // oxlint-disable-next-line no-await-in-loop
      await publish(large, { data: { text: "x".repeat(200_000) } });
    }
  });

  test.each([DLQ, "/v1/events"])(
    "%s ends a page at a megabyte and continues with its cursor",
    async (path) => {
      const seen = new Set<string>();
      let cursor = "";
      let pages = 0;
      do {
        // oxlint-disable-next-line no-await-in-loop
        const { text, body } = await large.get(`${path}?limit=100${cursor}`);
        expect(Buffer.byteLength(text)).toBeLessThan(1_100_000);
        const page = body as { data: { id: string }[]; next_cursor: string | null };
        expect(page.data.length).toBeGreaterThan(0);
        page.data.forEach(({ id }) => seen.add(id));
        pages += 1;
        cursor = page.next_cursor === null ? "" : `&cursor=${page.next_cursor}`;
      } while (cursor !== "");
      expect([seen.size, pages]).toEqual([EVENTS, 3]);
    },
  );

  test("is compressed for a client that accepts gzip, and plain for others", async () => {
    const encodingOf = async (accepted: string): Promise<string | null> => {
      const headers = { authorization: `Bearer ${large.token}`, "accept-encoding": accepted };
      const answer = await api.request(DLQ, { headers });
      expect(answer.body).toMatchObject({ next_cursor: expect.any(String) as string });
      return answer.headers.get("content-encoding");
    };
    expect(await encodingOf("gzip")).toBe("gzip");
    expect(await encodingOf("identity")).toBeNull();
    expect(await encodingOf("gzip;q=0")).toBeNull();
  });
});
