/** A change of a tenant's policy applies in every process to all requests after its answer. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Answer, useTestApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { bearer } from "#test/support/factories.ts";
import { createProducer, type Producer } from "#test/support/producer.ts";
import { type SecondApi, startSecondApi } from "#test/support/second-api.ts";
import { startTcpProxy, type TcpProxy } from "#test/support/tcp-proxy.ts";
import { createTenant, expectRefusal, type Tenant } from "#test/support/tenant.ts";

const ROUNDS = 5;
const EVENT = { type: "a.b", data: {} };
const api = useTestApi();
let proxy: TcpProxy;
let second: SecondApi;

beforeAll(async () => {
  proxy = await startTcpProxy(Number(new URL(api.database.url).port));
  second = await startSecondApi(api, proxy.port);
});
afterAll(async () => {
  await second.close();
  await proxy.close();
});
afterEach(() => {
  proxy.thaw();
});

async function askSecond(
  { token }: Tenant,
  path: string,
  { body, once = false }: { body?: unknown; once?: boolean } = {},
): Promise<Answer> {
  const headers = { ...bearer(token), "content-type": "application/json" };
  const init =
    body === undefined ? { headers: bearer(token) } : { method: "POST", headers, body: JSON.stringify(body) };
  return await (once ? second.requestOnce(path, init) : second.request(path, init));
}

/** Publishes in both processes at once, with only the token. */
async function publishAtBoth({ tenant }: Producer): Promise<readonly Answer[]> {
  return await Promise.all([
    tenant.post("/v1/events", EVENT),
    askSecond(tenant, "/v1/events", { body: EVENT }),
  ]);
}

async function require(own: Producer, required: boolean): Promise<void> {
  const body = { signature_required: required };
  expect(await own.tenant.send("PATCH", `/v1/credentials/${own.keyId}`, { body })).toMatchObject({
    status: 200,
    body,
  });
}

/** Waits until both processes have loaded the tenant's policy and admit by it. */
async function bothAdmit(own: Producer): Promise<void> {
  await eventually(
    async () => (await publishAtBoth(own)).every(({ status }) => status === 202),
    "both processes to accept events",
  );
}

describe("signature_required", () => {
  test("rejects unsigned events in every process from its answer on, and accepts them again once undone", async () => {
    const own = await createProducer(api);
    for (let round = 0; round < ROUNDS; round += 1) {
      await bothAdmit(own);
      await require(own, true);
      for (const answer of await publishAtBoth(own)) {
        expectRefusal(answer, 401, "SIGNATURE_INVALID");
      }
      await require(own, false);
      expect(await publishAtBoth(own)).toMatchObject([{ status: 202 }, { status: 202 }]);
    }
  });

  test("cannot be bypassed in a process that missed it", async () => {
    const own = await createProducer(api);
    await bothAdmit(own);
    proxy.freeze();
    await require(own, true);
    const stale = askSecond(own.tenant, "/v1/events", { body: EVENT, once: true });
    expectRefusal(await own.tenant.post("/v1/events", EVENT), 401, "SIGNATURE_INVALID");
    // It never answers by the old policy: it rejects the event at once, or after it receives again.
    proxy.thaw();
    expect([401, 503]).toContain((await stale).status);
    await eventually(
      async () => (await askSecond(own.tenant, "/v1/events", { body: EVENT })).status === 401,
      "the process to receive again",
    );
  });
});

describe("a limit that an operator lowers", () => {
  test("applies in every process from the answer on", async () => {
    const tenant = await createTenant(api);
    const list = "/v1/webhooks/endpoints";
    const policies = async (): Promise<readonly (string | null)[]> => {
      const answers = await Promise.all([tenant.get(list), askSecond(tenant, list)]);
      return answers.map(({ headers }) => headers.get("ratelimit-policy"));
    };
    for (const rate of [50, 40, 30, 20, 10]) {
      await policies();
      const changed = await api.admin("PATCH", `/tenants/${tenant.tenantId}/limits`, {
        api_requests_per_second: rate,
      });
      expect(changed).toMatchObject({ status: 200 });
      expect(await policies()).toEqual([`"api";q=${rate};w=1`, `"api";q=${rate};w=1`]);
    }
  });
});
