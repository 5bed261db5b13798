/** What a waiting event keeps of its check is small, however many endpoints have a filter. */
import { expect, test } from "vitest";
import { Excluded } from "#webhooks/ingest/event-rules.ts";

const ids = Array.from({ length: 10_000 }, (_, index) => `ep_${index}`);
const places = new Map(ids.map((id, place) => [id, place]));

test("an event whose 10,000 endpoints all refuse it keeps a bit for each", () => {
  const excluded = new Excluded(places, ids);
  expect(ids.every((id) => excluded.has(id))).toBe(true);
  expect(excluded.byteLength).toBe(1_250);
});

test("only the endpoints that refuse an event are excluded", () => {
  const refusing = ids.filter((_, place) => place % 7 === 0);
  const excluded = new Excluded(places, refusing);
  expect(ids.filter((id) => excluded.has(id))).toEqual(refusing);
  expect(excluded.has("ep_without_filter")).toBe(false);
  expect(new Excluded(places, []).byteLength).toBe(0);
});
