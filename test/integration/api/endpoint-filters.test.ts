/** Filters of endpoints, from registration to the deliveries that they exclude. */
import { beforeAll, describe, expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { createEndpoint, createTenant, expectRefusal, rows, sql, type Tenant } from "#test/support/tenant.ts";

const api = useSharedApi();
const TYPE = "order.paid";
let tenant: Tenant;

beforeAll(async () => {
  tenant = await createTenant(api);
});

const filterOf = (amount: number): unknown => ({ "data.amount": { $gte: amount } });

async function deliveriesOf(event: string): Promise<unknown[]> {
  return rows(await tenant.get(`/v1/webhooks/deliveries?event_id=${event}`)).map((row) => row["endpoint_id"]);
}

describe("an endpoint with a filter", () => {
  test("gets only the events that match, and the delivery count includes only those", async () => {
    const all = await createEndpoint(api, tenant, { events: [TYPE] });
    const large = await createEndpoint(api, tenant, { events: ["*"], filter: filterOf(100) });
    const off = await createEndpoint(api, tenant, {
      events: [TYPE],
      state: "DISABLED",
      filter: filterOf(500),
    });
    const amounts: readonly (readonly [number, readonly string[]])[] = [
      [99, [all.id]],
      [100, [all.id, large.id]],
      [500, [all.id, large.id, off.id]],
      [1, [all.id]],
    ];
    for (const [amount, endpoints] of amounts) {
      const answer = await tenant.post("/v1/events", { type: TYPE, data: { amount } });
      expect(answer).toMatchObject({ status: 202, body: { deliveries: endpoints.length } });
      expect(new Set(await deliveriesOf(String(answer.body["id"])))).toEqual(new Set(endpoints));
    }
    const batch = await tenant.post("/v1/events", {
      events: amounts.map(([amount]) => ({ type: TYPE, data: { amount } })),
    });
    expect((batch.body["data"] as { deliveries: number }[]).map(({ deliveries }) => deliveries)).toEqual([
      1, 2, 3, 1,
    ]);
  });

  test("shows the filter, and a change applies to the next event in every process", async () => {
    const one = await createTenant(api);
    const { id } = await createEndpoint(api, one, { events: [TYPE], filter: filterOf(10) });
    const path = `/v1/webhooks/endpoints/${id}`;
    const deliveries = async (amount: number): Promise<unknown> =>
      (await one.post("/v1/events", { type: TYPE, data: { amount } })).body["deliveries"];
    expect((await one.get(path)).body["filter"]).toEqual(filterOf(10));
    expect([await deliveries(9), await deliveries(10)]).toEqual([0, 1]);
    expect(await one.send("PATCH", path, { body: { filter: filterOf(20) } })).toMatchObject({
      status: 200,
      body: { filter: filterOf(20), state: "ACTIVE" },
    });
    expect([await deliveries(10), await deliveries(20)]).toEqual([0, 1]);
    // Simulates a change made by another process.
    await sql(api, "UPDATE endpoints SET filter = $2 WHERE id = $1", [id, JSON.stringify(filterOf(30))]);
    expect([await deliveries(20), await deliveries(30)]).toEqual([0, 1]);
    await one.send("PATCH", path, { body: { filter: null } });
    expect((await one.get(path)).body["filter"]).toBeNull();
    expect(await deliveries(1)).toBe(1);
  });

  test("counts from the next event when another process registers, changes or disables it", async () => {
    const one = await createTenant(api);
    const publish = async (key: string): Promise<Record<string, unknown>> =>
      (await one.post("/v1/events", { type: TYPE, data: { amount: 1 } }, { "Idempotency-Key": key })).body;
    const first = await publish("first");
    expect(first).toMatchObject({ deliveries: 0 });
    const { id } = await createEndpoint(api, one, { events: [TYPE] });
    const second = await publish("second");
    expect(second).toMatchObject({ deliveries: 1 });
    // A repetition has the earlier result, although the endpoints are different now.
    expect([await publish("first"), await publish("second")]).toMatchObject([
      { id: first["id"], deliveries: 0 },
      { id: second["id"], deliveries: 1 },
    ]);
    await sql(api, "UPDATE endpoints SET state = 'DISABLED' WHERE id = $1", [id]);
    const disabled = await publish("disabled");
    const { body } = await one.get(`/v1/webhooks/deliveries?event_id=${String(disabled["id"])}`);
    expect(body["data"]).toMatchObject([{ state: "DEAD_LETTERED" }]);
    await sql(api, "UPDATE endpoints SET event_types = '{order.other}' WHERE id = $1", [id]);
    expect(await publish("other")).toMatchObject({ deliveries: 0 });
    await sql(api, "UPDATE endpoints SET event_types = '{*}', state = 'ACTIVE' WHERE id = $1", [id]);
    expect(await publish("every")).toMatchObject({ deliveries: 1 });
    await one.send("DELETE", `/v1/webhooks/endpoints/${id}`);
    expect(await publish("deleted")).toMatchObject({ deliveries: 0 });
    const schema = { type: "object", properties: { amount: { type: "string" } } };
    await one.post("/v1/webhooks/event-types", { name: TYPE, description: "Paid", schema });
    expect(await publish("checked")).toMatchObject({ code: "VALIDATION_FAILED" });
  });

  test("gets the publisher's exact bytes, including numbers beyond 2^53 and 1.0", async () => {
    const { id } = await createEndpoint(api, tenant, { events: ["big.number"], filter: { "data.n": 1 } });
    const data = '{"n":1.0,"big":9007199254740993,"z":1e2,"a":null,"__proto__":{"constructor":1}}';
    const answer = await tenant.send("POST", "/v1/events", { raw: `{"type":"big.number","data":${data}}` });
    expect(answer).toMatchObject({ status: 202 });
    expect(await deliveriesOf(String(answer.body["id"]))).toContain(id);
    expect((await tenant.get(`/v1/events/${String(answer.body["id"])}`)).text).toContain(`"data":${data}`);
  });
});

describe("an invalid filter", () => {
  test.each([
    [{ $where: "1" }, "/filter/$where"],
    [{ amount: 1 }, "/filter/amount"],
    [{ "data.a": { $regex: "^a" } }, "/filter/data.a/$regex"],
    ["text", "/filter"],
  ])("is a 422 with a pointer at registration and change: %j", async (filter, pointer) => {
    const url = "http://127.0.0.1:19999/hook";
    const answer = await tenant.post("/v1/webhooks/endpoints", { url, events: [TYPE], filter });
    expectRefusal(answer, 422, "VALIDATION_FAILED");
    expect((answer.body["errors"] as unknown[])[0]).toMatchObject({ pointer });
    const { id } = await createEndpoint(api, tenant);
    expectRefusal(
      await tenant.send("PATCH", `/v1/webhooks/endpoints/${id}`, { body: { filter } }),
      422,
      "VALIDATION_FAILED",
    );
  });

  test("that is larger than 4 KiB is a 422", async () => {
    const url = "http://127.0.0.1:19999/hook";
    const filter = { "data.a": "x".repeat(4_096) };
    expectRefusal(
      await tenant.post("/v1/webhooks/endpoints", { url, events: [TYPE], filter }),
      422,
      "LIMIT_EXCEEDED",
    );
  });
});
