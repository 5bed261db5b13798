import { beforeEach, expect, test } from "vitest";
import { BusyTenants } from "#webhooks/engine/busy-tenants.ts";

const clock = { ms: 0 };
const loop = { utilization: 0, active: 0, idle: 0 };

function create(): BusyTenants {
  return new BusyTenants({
    underWayMax: 100,
    monotonic: () => clock.ms,
    loopUtilization: (of = loop, since = { active: 0, idle: 0, utilization: 0 }) => ({
      active: of.active - since.active,
      idle: of.idle - since.idle,
      utilization: loop.utilization,
    }),
  });
}

/** Begins attempts. Returns the function that ends them. */
function begin(tenants: BusyTenants, tenantId: string, count: number): () => void {
  return tenants.begin(Array.from({ length: count }, () => ({ tenant_id: tenantId })));
}

beforeEach(() => {
  clock.ms = 0;
  Object.assign(loop, { utilization: 0, active: 0, idle: 0 });
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

/** A claim of all tenants, which leaves some or none. */
const CLAIM = {
  mode: "latest",
  atLeast: 1,
  limit: 64,
  afterTenant: "",
  exceptTenants: [],
  madeWithinMs: 9,
  spends: true,
} as const;
const [LEFT, ALL] = [true, false].map((more) => ({ more, nextTenant: "" })) as [Left, Left];

interface Left {
  readonly more: boolean;
  readonly nextTenant: string;
}

function members(counts: Readonly<Record<string, number>>): { readonly tenant_id: string }[] {
  return Object.entries(counts).flatMap(([id, count]) =>
    Array.from({ length: count }, () => ({ tenant_id: id })),
  );
}

test("a tenant is busy while it takes more places than others in claims that leave some", () => {
  const tenants = create();
  tenants.claimed(CLAIM, members({ ten_many: 60, ten_other: 4 }), LEFT);
  expect(tenants.ids).toEqual(["ten_many"]);
  // After a stall, the other one has as many for once.
  tenants.claimed(CLAIM, members({ ten_many: 8, ten_other: 8 }), LEFT);
  expect(tenants.ids).toEqual(["ten_many"]);
  expect(tenants.note(["ten_other"])).toBe(true);
  expect(tenants.isBesideOthers).toBe(true);
  tenants.claimed(CLAIM, members({ ten_many: 3 }), ALL);
  expect(tenants.ids).toEqual([]);
});

test.each([
  ["others than busy tenants", { ...CLAIM, mode: "beside" as const }, ""],
  ["the last tenants", { ...CLAIM, afterTenant: "ten_a" }, ""],
  ["the first tenants", CLAIM, "ten_z"],
])("a claim of %s tells nothing of who is busy", (_, claim, nextTenant) => {
  const tenants = create();
  tenants.claimed(claim, members({ ten_many: 64 }), { more: true, nextTenant });
  expect(tenants.ids).toEqual([]);
});

test("tenants with as many waiting are busy together, and few of very many are not", () => {
  const tenants = create();
  tenants.claimed(CLAIM, members({ ten_a: 32, ten_b: 32 }), LEFT);
  expect(tenants.ids).toEqual(["ten_a", "ten_b"]);
  tenants.claimed(CLAIM, [], ALL);
  tenants.claimed(
    CLAIM,
    members(Object.fromEntries(Array.from({ length: 64 }, (_, n) => [`ten_${n}`, 1]))),
    LEFT,
  );
  expect(tenants.ids).toEqual([]);
});

test("earlier places count less, so a tenant of which few remain is no longer busy", () => {
  const tenants = create();
  tenants.claimed(CLAIM, members({ ten_first: 64 }), LEFT);
  for (let claim = 0; claim < 100; claim += 1) {
    tenants.claimed(CLAIM, members({ ten_second: 64 }), LEFT);
  }
  expect(tenants.ids).toEqual(["ten_second"]);
});

test("beside others, claims rest until the event loop was idle for 1.5 times as long as it was busy, at most 0.1 s", () => {
  const tenants = create();
  tenants.claimed(CLAIM, members({ ten_many: 64 }), LEFT);
  tenants.claiming();
  loop.active = 10;
  expect(tenants.restMs()).toBe(0);
  tenants.note(["ten_other"]);
  expect(tenants.restMs()).toBe(15);
  loop.idle = 9;
  expect(tenants.restMs()).toBe(6);
  Object.assign(loop, { active: 60, idle: 10 });
  clock.ms = 70;
  expect(tenants.restMs()).toBe(30);
  clock.ms = 100;
  expect(tenants.restMs()).toBe(0);
  tenants.claiming();
  expect(tenants.restMs()).toBe(0);
  loop.active += 4;
  expect(tenants.restMs()).toBe(6);
});
