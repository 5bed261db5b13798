import { beforeEach, expect, test } from "vitest";
import { BusyTenants } from "#webhooks/engine/busy-tenants.ts";

const clock = { ms: 0 };
const loop = { utilization: 0 };

function create(): BusyTenants {
  return new BusyTenants({
    underWayMax: 100,
    monotonic: () => clock.ms,
    loopUtilization: () => ({ idle: 0, active: 0, utilization: loop.utilization }),
  });
}

/** Begins attempts. Returns the function that ends them. */
function begin(tenants: BusyTenants, tenantId: string, count: number): () => void {
  return tenants.begin(Array.from({ length: count }, () => ({ tenant_id: tenantId })));
}

beforeEach(() => {
  clock.ms = 0;
  loop.utilization = 0;
});

test("a tenant is busy while it has half of all first attempts", () => {
  const tenants = create();
  begin(tenants, "ten_some", 49);
  const end = begin(tenants, "ten_many", 50);
  expect(tenants.ids).toEqual(["ten_many"]);
  end();
  expect(tenants.ids).toEqual([]);
});

test.each<[string, string[], boolean]>([
  ["another tenant", ["ten_many", "ten_other"], true],
  ["unknown tenants", [], true],
  ["the busy tenant", ["ten_many"], false],
])("a notification of %s makes claims small for a second, or not", (_, named, small) => {
  const tenants = create();
  begin(tenants, "ten_many", 50);
  expect(tenants.note(named)).toBe(small);
  expect(tenants.isBesideOthers).toBe(small);
  clock.ms = 1_000;
  expect(tenants.isBesideOthers).toBe(false);
});

test("beside a tenant with an eighth of all first attempts, claims are small, and nobody is kept out", () => {
  const tenants = create();
  const end = begin(tenants, "ten_some", 12);
  tenants.note(["ten_other"]);
  expect(tenants.isBesideOthers).toBe(false);
  begin(tenants, "ten_some", 1);
  expect(tenants.note(["ten_other"])).toBe(false);
  expect(tenants.ids).toEqual([]);
  // Small claims have few under way, and stay small.
  end();
  expect(tenants.isBesideOthers).toBe(true);
  loop.utilization = 0.9;
  clock.ms = 20;
  expect(tenants.rests()).toBe(false);
  clock.ms = 1_000;
  expect(tenants.isBesideOthers).toBe(false);
});

test("without a busy tenant, nobody waits for others", () => {
  const tenants = create();
  expect(tenants.note(["ten_other"])).toBe(false);
  expect(tenants.isBesideOthers).toBe(false);
});

test("beside others, a busy tenant rests while the event loop is busy, for as long as it is busy itself", () => {
  const tenants = create();
  const end = begin(tenants, "ten_many", 50);
  loop.utilization = 0.9;
  clock.ms = 20;
  expect(tenants.rests()).toBe(false);
  tenants.note(["ten_other"]);
  expect(tenants.rests()).toBe(true);
  loop.utilization = 0.5;
  // It is not measured again so soon.
  expect(tenants.rests()).toBe(true);
  clock.ms = 40;
  expect(tenants.rests()).toBe(false);
  loop.utilization = 0.9;
  clock.ms = 60;
  expect(tenants.rests()).toBe(true);
  end();
  expect(tenants.rests()).toBe(false);
});
