/** Invalid queries, addresses, methods and media types at the webhook routes: never a 500. */
import { beforeAll, describe, expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { type ApiRoute, apiRoutes } from "#test/support/openapi.ts";
import {
  createEndpoint,
  createTenant,
  expectRefusal,
  type Json,
  publish,
  rows,
  type Tenant,
} from "#test/support/tenant.ts";

const api = useSharedApi();
let tenant: Tenant;

beforeAll(async () => {
  tenant = await createTenant(api);
});

const ENDPOINTS = "/v1/webhooks/endpoints";
const EVENTS = "/v1/events";
const ENDPOINT: Json = { url: "https://example.com/hook", events: ["inference.completed"] };
const EVENT: Json = { type: "inference.completed", data: {} };

describe("queries of lists", () => {
  const DELIVERIES = "/v1/webhooks/deliveries";
  const DLQ = "/v1/webhooks/dlq";
  const FILTERS = [DELIVERIES, DLQ];
  const LISTS = [ENDPOINTS, EVENTS, ...FILTERS];
  const DATED = [EVENTS, ...FILTERS];

  test.each<[string, readonly string[]]>([
    ["limit=0", LISTS],
    ["limit=101", LISTS],
    ["limit=-1", LISTS],
    ["limit=1.5", LISTS],
    ["limit=", LISTS],
    ["limit=ten", LISTS],
    ["limit=0x10", LISTS],
    ["limit=+5", LISTS],
    ["limit=99999999999999999999", LISTS],
    ["limit=1&limit=2", LISTS],
    ["cursor=", LISTS],
    ["cursor=x", LISTS],
    ["cursor=%00", LISTS],
    [`cursor=${"x".repeat(257)}`, LISTS],
    ["surprise=1", LISTS],
    ["Limit=1", LISTS],
    ["__proto__=1", LISTS],
    ["constructor=1", LISTS],
    ["%zz=1", LISTS],
    ["tenant_id=ten_000000000000000000000000", LISTS],
    ["access_token=x", LISTS],
    ["state=DELETED", FILTERS],
    ["state=delivered", FILTERS],
    ["state=", FILTERS],
    ["state=DELIVERED&state=QUEUED", FILTERS],
    ["endpoint_id=x", FILTERS],
    ["endpoint_id=evt_000000000000000000000000", FILTERS],
    ["endpoint_id=ep_000000000000000000000000%00", FILTERS],
    ["event_id=1", FILTERS],
    ["event_id=ep_000000000000000000000000", FILTERS],
    ["event_type=*", DATED],
    ["event_type=Inference", DATED],
    ["from=yesterday", DATED],
    ["to=2025-02-30T00:00:00Z", DATED],
    ["from=2025-01-01T24:00:00Z", DATED],
    ["from=2025-01-01T00:00:00+0100", DATED],
    ["to=1763650000", DATED],
    ["from=", DATED],
  ])("?%s is rejected", async (query, lists) => {
    for (const list of lists) {
      expectRefusal(await tenant.get(`${list}?${query}`), 400, "INVALID_REQUEST");
    }
  });

  test("a filter's value can contain the name of another filter", async () => {
    for (const list of DATED) {
      expect(await tenant.get(`${list}?event_type=metadata.changed`)).toMatchObject({ status: 200 });
    }
    expectRefusal(await tenant.get(`${DELIVERIES}?metadata=eu`), 400, "INVALID_REQUEST");
    expectRefusal(await tenant.get(`${EVENTS}?metadata[region]=eu`), 400, "INVALID_REQUEST");
  });

  test("ids with a timestamp beyond every calendar are simply not found", async () => {
    const fresh = await createTenant(api);
    const last = "z".repeat(24);
    expect(rows(await fresh.get(`${DELIVERIES}?event_id=evt_${last}&endpoint_id=ep_${last}`))).toEqual([]);
    expect(rows(await fresh.get(`${DLQ}?event_id=evt_${last}`))).toEqual([]);
    for (const path of [`${EVENTS}/evt_`, `${DELIVERIES}/dlv_`, `${DLQ}/dlv_`, `${ENDPOINTS}/ep_`]) {
      expectRefusal(await fresh.get(path + last), 404, "NOT_FOUND");
    }
    expectRefusal(await fresh.post(`${DLQ}/dlv_${last}/replay`), 404, "NOT_FOUND");
  });

  test("a cursor that was tampered with never leads to a 500", async () => {
    const fresh = await createTenant(api);
    await createEndpoint(api, fresh, { state: "DISABLED" });
    await createEndpoint(api, fresh, { state: "DISABLED" });
    await publish(fresh);
    await publish(fresh);
    for (const list of LISTS) {
      const { body } = await fresh.get(`${list}?limit=1`);
      const cursor = Buffer.from(String(body["next_cursor"]), "base64url").toString("latin1");
      for (const end of ["z".repeat(24), "0".repeat(24), "\0".repeat(24), "", "'--"]) {
        const forged = Buffer.from(cursor.slice(0, -24) + end, "latin1").toString("base64url");
        const answer = await fresh.get(`${list}?limit=1&cursor=${forged}`);
        expect({ list, end, fault: answer.status >= 500 }).toEqual({ list, end, fault: false });
      }
    }
  });

  test("a tampered cursor of a list by position never leads to a 500", async () => {
    const fresh = await createTenant(api);
    for (const name of ["cursor.one", "cursor.two"]) {
      const type = { name, schema: { type: "object" } };
      expect(await fresh.post("/v1/webhooks/event-types", type)).toMatchObject({ status: 201 });
    }
    const change = { schema: { type: "object", maxProperties: 9 } };
    await fresh.send("PATCH", "/v1/webhooks/event-types/cursor.one", { body: change });
    const ids = ["dlv_000000000000000000000000", "dlv_000000000000000000000001"];
    const { body: job } = await fresh.post(`${DLQ}/replay`, { ids });
    for (const list of [
      `/v1/webhooks/replays/${String(job["id"])}/items`,
      "/v1/webhooks/event-types",
      "/v1/webhooks/event-types/cursor.one/versions",
    ]) {
      const { body } = await fresh.get(`${list}?limit=1`);
      const binding = Buffer.from(String(body["next_cursor"]), "base64url").toString("latin1").slice(0, 12);
      expect(binding).toHaveLength(12);
      for (const end of [
        "0",
        "999999",
        "2147483648",
        "999999999999999",
        "9".repeat(40),
        "-1",
        "1.5",
        "a.b",
      ]) {
        const forged = Buffer.from(binding + end, "latin1").toString("base64url");
        const { status } = await fresh.get(`${list}?limit=1&cursor=${forged}`);
        expect({ list, end, fault: status >= 500 }).toEqual({ list, end, fault: false });
      }
    }
  });
});

describe("addresses", () => {
  let routes: readonly ApiRoute[];

  beforeAll(async () => {
    routes = (await apiRoutes(api)).filter(({ path }) => /^\/v1\/(webhooks|events)/.test(path));
  });

  test.each(["x", "%00", "ep_0", "EP_000000000000000000000000", "..%2f", "a".repeat(200), "%ff", "'"])(
    "the id %j is not found on any route",
    async (id) => {
      for (const { method, path, takesBody } of routes.filter((route) => route.path.includes("{"))) {
        const address = path.replace(/\{\w+\}/, () => id);
        const { status, body } = await tenant.send(method, address, takesBody ? { body: {} } : {});
        const expected =
          id === "%ff" ? { status: 400, code: "INVALID_REQUEST" } : { status: 404, code: "NOT_FOUND" };
        expect({ method, path, status, code: body["code"] }).toEqual({ method, path, ...expected });
      }
    },
  );

  test("an unsupported method is a 405 whose Allow header lists the supported ones", async () => {
    const id = "000000000000000000000000";
    const paths = new Set(routes.map(({ path }) => path));
    expect(paths.size).toBeGreaterThanOrEqual(10);
    for (const path of paths) {
      const documented = routes.filter((route) => route.path === path).map(({ method }) => method);
      // HEAD works wherever GET does.
      const own = documented.includes("GET") ? [...documented, "HEAD"] : documented;
      for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"]) {
        // GET and HEAD of …/dlq/replay read a dead letter with that id, which does not exist.
        if (own.includes(method) || (path.endsWith("/dlq/replay") && ["GET", "HEAD"].includes(method))) {
          continue;
        }
        const response = await fetch(api.publicUrl + path.replace("{id}", `dlv_${id}`), {
          method,
          headers: { authorization: `Bearer ${tenant.token}` },
        });
        await response.arrayBuffer();
        const allow = response.headers.get("allow");
        expect({ method, path, status: response.status, allow }).toEqual({
          method,
          path,
          status: 405,
          allow: own.sort().join(", "),
        });
      }
    }
  });

  test.each(["text/plain", "application/x-www-form-urlencoded", "application/json-seq", "text/json", "*/*"])(
    "a body of type %s is a 415",
    async (type) => {
      for (const [path, body] of [
        [EVENTS, EVENT],
        [ENDPOINTS, ENDPOINT],
      ] as const) {
        expectRefusal(await tenant.post(path, body, { "content-type": type }), 415, "UNSUPPORTED_MEDIA_TYPE");
      }
    },
  );

  test("a compressed body is a 415", async () => {
    expectRefusal(
      await tenant.post(EVENTS, EVENT, { "content-encoding": "gzip" }),
      415,
      "UNSUPPORTED_MEDIA_TYPE",
    );
  });

  test("routes without a body reject a non-empty one", async () => {
    const { id } = await createEndpoint(api, tenant, { state: "PENDING" });
    const path = `${ENDPOINTS}/${id}/verify`;
    expectRefusal(await tenant.post(path, { force: true }), 422, "VALIDATION_FAILED");
    expect(await tenant.post(path, {})).toMatchObject({ status: 202 });
  });
});
