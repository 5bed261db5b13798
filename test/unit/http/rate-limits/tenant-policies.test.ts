import { expect, test } from "vitest";
import { TenantPolicies, POLICY_LIFE_MS } from "#http/rate-limits/tenant-policies.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

const time = new SimulatedTime();

test("a tenant's policy is read once in five seconds for all concurrent requests", async () => {
  const asked: (readonly string[])[] = [];
  let nowMs = 0;
  const policies = new TenantPolicies({
    timers: time,
    find: async (ids) => {
      asked.push(ids);
      return [{ id: "ten_a", region: "eu", limits: { endpoints: 7 }, signing: ["crd_a"] }];
    },
    defaults: {
      apiRatePerTenant: 1,
      publishRatePerTenant: 2,
      endpointsPerTenant: 3,
      eventTypesPerTenant: 4,
      credentialsPerPrincipal: 5,
    },
    clock: { now: () => nowMs },
  });
  expect(policies.known("ten_a")).toBeUndefined();
  const [own, , other] = await Promise.all(
    ["ten_a", "ten_a", "ten_b"].map(async (id) => await policies.read(id)),
  );
  expect(own).toMatchObject({
    limits: { endpoints: 7, api_requests_per_second: 1 },
    signing: new Set(["crd_a"]),
  });
  expect(other).toMatchObject({ limits: { endpoints: 3 }, signing: new Set() });
  const before = asked.length;
  nowMs = POLICY_LIFE_MS - 1;
  expect(policies.known("ten_a")).toEqual(own);
  nowMs = POLICY_LIFE_MS;
  expect(policies.known("ten_a")).toBeUndefined();
  expect(asked.length).toBe(before);
});

test("a policy that changes while it is read is not kept", async () => {
  const answers: ((signing: readonly string[]) => void)[] = [];
  const policies = new TenantPolicies({
    timers: time,
    find: async () =>
      await new Promise((resolve) => {
        answers.push((signing) => resolve([{ id: "ten_a", region: "eu", limits: {}, signing }]));
      }),
    defaults: {
      apiRatePerTenant: 1,
      publishRatePerTenant: 2,
      endpointsPerTenant: 3,
      eventTypesPerTenant: 4,
      credentialsPerPrincipal: 5,
    },
    clock: { now: () => 0 },
  });
  const reading = policies.read("ten_a");
  await new Promise(setImmediate);
  expect(answers).toHaveLength(1);
  policies.forget("ten_a");
  answers[0]?.([]);
  await reading;
  expect(policies.known("ten_a")).toBeUndefined();

  const again = policies.read("ten_a");
  await new Promise(setImmediate);
  expect(answers).toHaveLength(2);
  answers[1]?.(["crd_a"]);
  await again;
  expect(policies.known("ten_a")?.signing).toEqual(new Set(["crd_a"]));
  policies.forget("ten_a");
  expect(policies.known("ten_a")).toBeUndefined();
});
