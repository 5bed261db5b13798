/** The charts keep attempts apart from what was delivered in the end. */
import { expect, test } from "vitest";
import type { DeliveryHour } from "#lib/client/api-types.ts";
import { chartsSection } from "#portal/pages/charts.ts";

function hour(changed: Partial<DeliveryHour>): DeliveryHour {
  return {
    hour: "2026-11-28T10:00:00.000Z",
    total: 0,
    delivered: 0,
    dead_lettered: 0,
    attempts: 0,
    failed_attempts: 0,
    latency_p50_ms: null,
    latency_p95_ms: null,
    complete: true,
    ...changed,
  };
}

test("an endpoint that refuses most attempts does not look well because all was delivered in the end", () => {
  const busy = hour({ total: 100, delivered: 100, attempts: 1_000, failed_attempts: 900 });
  const { text } = chartsSection([busy]);
  expect(text).toContain('aria-label="Attempts by hour: 1,000, 10 % succeeded"');
  expect(text).toContain('aria-label="Delivered in the end by hour: 100 %"');
  expect(text.indexOf("Attempts by hour")).toBeLessThan(text.indexOf("Delivered in the end by hour"));
});

test("what is still retried counts neither as delivered nor as not delivered", () => {
  const { text } = chartsSection([hour({ total: 100, delivered: 60, dead_lettered: 20 })]);
  expect(text).toContain('aria-label="Delivered in the end by hour: 75 %"');
  const open = chartsSection([hour({ total: 100, attempts: 100, failed_attempts: 100 })]).text;
  expect(open).toContain('aria-label="Delivered in the end by hour: none has ended"');
});
