import { Writable } from "node:stream";
import { expect, test } from "vitest";
import { isRefusal, publishRefusals } from "#http/rate-limits/publish-refusals.ts";
import { createLogger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";

/** Notes events of which some are refused, and some are wrong. */
function publish(tenantId: string, events: number, refused: number): void {
  const outcomes = Array.from({ length: events }, (_, index) =>
    index < refused
      ? { error: { status: 429 } }
      : index % 2 === 0
        ? { id: "evt_1" }
        : { error: { status: 422 } },
  );
  publishRefusals.note(tenantId, outcomes);
}

/** Reports, and returns the metric and the tenants in the log. */
async function report(): Promise<{ readonly share: number | undefined; readonly named: readonly unknown[] }> {
  const lines: string[] = [];
  const destination = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      lines.push(...chunk.toString().trim().split("\n"));
      done();
    },
  });
  publishRefusals.report(createLogger({ level: "info", destination }));
  const { values } = await metrics.refusedPublishes.get();
  const named = lines.map((line) => {
    const { tenant_id: tenant, refused, count } = JSON.parse(line) as Record<string, unknown>;
    return [tenant, refused, count];
  });
  return { share: values[0]?.value, named };
}

test("the tenant that is refused most gives the metric, and the log names it", async () => {
  publish("ten_a", 100, 0);
  publish("ten_b", 90, 0);
  publish("ten_b", 10, 10);
  publish("ten_c", 100, 5);
  expect(await report()).toEqual({ share: 0.1, named: [["ten_b", 10, 100]] });
});

test("few events say nothing, and each minute begins again", async () => {
  publish("ten_a", 19, 19);
  expect(await report()).toEqual({ share: 0, named: [] });
  publish("ten_a", 1, 1);
  expect(await report()).toEqual({ share: 0, named: [] });
});

test("three tenants are named at most, the most refused first", async () => {
  for (const [tenant, refused] of [
    ["ten_a", 20],
    ["ten_b", 50],
    ["ten_c", 40],
    ["ten_d", 30],
  ] as const) {
    publish(tenant, 50, refused);
  }
  const { share, named } = await report();
  expect(share).toBe(1);
  expect(named.map((each) => (each as unknown[])[0])).toEqual(["ten_b", "ten_c", "ten_d"]);
});

test.each([
  [202, false],
  [401, false],
  [409, false],
  [422, false],
  [429, true],
  [500, false],
  [503, true],
])("%i: could be accepted at another time: %s", (status, refused) => {
  expect(isRefusal(status)).toBe(refused);
});
