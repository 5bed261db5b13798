/** The rate limit of an endpoint: answers and effects of each request. */
import { describe, expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import {
  createEndpoint,
  createTenant,
  expectRefusal,
  type Json,
  rows,
  WEBHOOK_SCOPES,
} from "#test/support/tenant.ts";

const api = useSharedApi();
const ENDPOINTS = "/v1/webhooks/endpoints";
const URL = "http://127.0.0.1:19999/";
const SCOPES = [...WEBHOOK_SCOPES, "compliance:read"];
const BAD = [0, -1, 1.5, 1_001, 1e300, "20", true, [20], {}];

describe("the rate limit of an endpoint", () => {
  test("is null unless the registration sets it", async () => {
    const tenant = await createTenant(api, SCOPES);
    const { id } = await createEndpoint(api, tenant);
    expect((await tenant.get(`${ENDPOINTS}/${id}`)).body).toMatchObject({ rate_limit: null });
    const body = { url: URL, events: ["*"], rate_limit: 1_000 };
    const made = await tenant.send("POST", ENDPOINTS, { body });
    expect(made).toMatchObject({ status: 201, body: { rate_limit: 1_000 } });
    const path = `${ENDPOINTS}/${String(made.body["id"])}`;
    expect((await tenant.get(path)).body).toMatchObject({ rate_limit: 1_000 });
  });

  test("can be changed and removed, and the log names only the changed field", async () => {
    const tenant = await createTenant(api, SCOPES);
    const { id } = await createEndpoint(api, tenant, { metadata: { stays: true } });
    for (const rateLimit of [1, 20, null]) {
      const body = { rate_limit: rateLimit };
      const changed = await tenant.send("PATCH", `${ENDPOINTS}/${id}`, { body });
      expect(changed).toMatchObject({
        status: 200,
        body: { rate_limit: rateLimit, metadata: { stays: true } },
      });
    }
    const log: readonly Json[] = rows(await tenant.get("/v1/compliance/entries?type=endpoint.updated"));
    expect(log.map(({ details }) => details)).toEqual(
      [0, 1, 2].map(() => expect.objectContaining({ changed: ["rate_limit"] }) as unknown),
    );
  });

  test.each(BAD.map((rateLimit) => [JSON.stringify(rateLimit), rateLimit]))(
    "is rejected as %s",
    async (_, rateLimit) => {
      const tenant = await createTenant(api, SCOPES);
      const { id } = await createEndpoint(api, tenant);
      const path = `${ENDPOINTS}/${id}`;
      expectRefusal(
        await tenant.send("PATCH", path, { body: { rate_limit: rateLimit } }),
        422,
        "VALIDATION_FAILED",
      );
      const body = { url: URL, events: ["*"], rate_limit: rateLimit };
      expectRefusal(await tenant.send("POST", ENDPOINTS, { body }), 422, "VALIDATION_FAILED");
      expect((await tenant.get(path)).body).toMatchObject({ rate_limit: null });
    },
  );

  test("is part of the request that an Idempotency-Key identifies", async () => {
    const tenant = await createTenant(api, SCOPES);
    const send = async (more: object) =>
      await tenant.send("POST", ENDPOINTS, {
        body: { url: URL, events: ["*"], ...more },
        headers: { "idempotency-key": "one" },
      });
    expect(await send({ rate_limit: 5 })).toMatchObject({ status: 201 });
    expect(await send({ rate_limit: 5 })).toMatchObject({ status: 201, body: { rate_limit: 5 } });
    expectRefusal(await send({ rate_limit: 6 }), 409, "IDEMPOTENCY_KEY_REUSED");
    expectRefusal(await send({}), 409, "IDEMPOTENCY_KEY_REUSED");
  });
});
