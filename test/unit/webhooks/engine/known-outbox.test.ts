import { expect, test } from "vitest";
import type { ListClaim, OutboxView } from "#webhooks/engine/dispatch-plan.ts";
import { type ClaimResult, KnownOutbox } from "#webhooks/engine/known-outbox.ts";

/** A claim that begins and ends at once, and what it finds: by default nothing. */
interface Made {
  readonly mode?: ListClaim["mode"];
  readonly except?: readonly string[];
  readonly after?: string;
  readonly found?: Partial<ClaimResult>;
}

function claim(known: KnownOutbox, nowMs: number, { mode = "latest", except = [], after = "", found }: Made) {
  const madeWithinMs = mode === "latest" ? Number.POSITIVE_INFINITY : 1_000;
  const planned = { mode, atLeast: 1, limit: 64, afterTenant: after, madeWithinMs, spends: true };
  const ended = known.begin({ ...planned, exceptTenants: except }, nowMs);
  ended({ claimed: 0, more: false, nextTenant: "", ...found }, nowMs);
}

/** Returns an outbox in which nothing waits. */
function cleared(): KnownOutbox {
  const known = new KnownOutbox(64, 0);
  claim(known, 0, {});
  return known;
}

function view(known: KnownOutbox, ...busyTenants: readonly string[]): OutboxView {
  return known.view(60, busyTenants, 100);
}

test("what is told of while claims go round tenants with nothing to claim still waits afterwards", () => {
  const known = new KnownOutbox(64, 0);
  known.add(1);
  claim(known, 0, { found: { nextTenant: "ten_64" } });
  known.add(1);
  claim(known, 1, { after: "ten_64" });
  expect(view(known).waiting).toBe(1);
});

test("others than busy tenants may wait until claims have left none, and once there is news of them", () => {
  const known = new KnownOutbox(64, 0);
  expect(view(known, "ten_busy").othersWait).toBe(true);
  claim(known, 1, {});
  expect(view(known, "ten_busy").othersWait).toBe(false);
  known.noteTenants(["ten_busy"]);
  expect(view(known, "ten_busy").othersWait).toBe(false);
  known.noteTenants(["ten_busy", "ten_other"]);
  expect(view(known, "ten_busy").othersWait).toBe(true);
  claim(known, 2, { mode: "beside", except: ["ten_busy"], found: { claimed: 64, more: true } });
  expect(view(known, "ten_busy").othersWait).toBe(true);
  claim(known, 3, { mode: "beside", except: ["ten_busy"] });
  expect(view(known, "ten_busy").othersWait).toBe(false);
});

test.each([
  ["of unknown tenants", []],
  ["of more tenants than are kept", Array.from({ length: 65 }, () => "ten_busy")],
])("news %s may be of others", (_, tenantIds) => {
  const known = cleared();
  known.noteTenants(tenantIds);
  expect(view(known, "ten_busy").othersWait).toBe(true);
  claim(known, 1, {});
  expect(view(known, "ten_busy").othersWait).toBe(false);
});

test("news that comes during a claim outlives it", () => {
  const known = cleared();
  const ended = known.begin(
    {
      mode: "beside",
      atLeast: 1,
      limit: 4,
      afterTenant: "",
      exceptTenants: [],
      madeWithinMs: 9,
      spends: true,
    },
    1,
  );
  known.noteTenants(["ten_other"]);
  ended({ claimed: 0, more: false, nextTenant: "" }, 2);
  expect(view(known, "ten_busy").othersWait).toBe(true);
  expect(view(known, "ten_other").othersWait).toBe(false);
});

test("a tenant that becomes busy leaves those of which there was news before", () => {
  const known = cleared();
  known.noteTenants(["ten_first", "ten_busy"]);
  expect(view(known, "ten_busy").othersWait).toBe(true);
});

test("what a claim finds though nothing told of it may be of others", () => {
  const known = cleared();
  claim(known, 1, { found: { claimed: 64, more: true } });
  expect(view(known, "ten_busy").othersWait).toBe(true);
});

test("a tenant that is no longer busy may wait, from any time, if any claim of the last round left it out", () => {
  const known = cleared();
  known.noteTenants(["ten_a", "ten_b"]);
  claim(known, 1, { mode: "beside", except: ["ten_a"], found: { nextTenant: "ten_m" } });
  claim(known, 2, { mode: "beside", except: ["ten_b"], after: "ten_m" });
  expect(view(known, "ten_a", "ten_b")).toMatchObject({ othersWait: false, besideClearedAtMs: 1 });
  for (const busy of ["ten_a", "ten_b"]) {
    expect(view(known, busy)).toMatchObject({
      othersWait: true,
      besideClearedAtMs: Number.NEGATIVE_INFINITY,
    });
  }
  claim(known, 3, { mode: "beside", except: ["ten_b"] });
  expect(view(known, "ten_b")).toMatchObject({ othersWait: false, besideClearedAtMs: 3 });
});
