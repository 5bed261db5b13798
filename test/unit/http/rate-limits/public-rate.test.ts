import { expect, test } from "vitest";
import { PublicRate } from "#http/rate-limits/public-rate.ts";

test("a long response counts as one request per 256 KiB, and the address may owe requests", () => {
  let nowMs = 0;
  const rate = new PublicRate(10, () => nowMs);
  rate.take("192.0.2.1");
  rate.charge("192.0.2.1", 262_143);
  rate.take("192.0.2.1");
  rate.charge("192.0.2.1", 20 * 262_144);
  expect(() => rate.take("192.0.2.1")).toThrow("Too many requests");
  rate.take("192.0.2.2");
  // Eight were left; it now owes twelve, and the next request needs one more.
  nowMs = 1_299;
  expect(() => rate.take("192.0.2.1")).toThrow("Too many requests");
  nowMs = 1_300;
  rate.take("192.0.2.1");
});

test("0 means no limit, also for long responses", () => {
  const rate = new PublicRate(0, () => 0);
  rate.charge("192.0.2.1", 1_000 * 262_144);
  expect(() => rate.take("192.0.2.1")).not.toThrow();
});
