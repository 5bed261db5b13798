import { expect, test } from "vitest";
import { createRandomPool } from "#crypto/random-pool.ts";

test("no bytes are returned twice, even across refills", () => {
  const random = createRandomPool();
  const drawn = Array.from({ length: 10_000 }, () => Buffer.from(random(9)).toString("hex"));
  expect(new Set(drawn).size).toBe(drawn.length);
});

test("returned bytes do not change later", () => {
  const random = createRandomPool();
  const first = random(9);
  const copy = Buffer.from(first).toString("hex");
  for (let draw = 0; draw < 4_000; draw += 1) {
    random(9);
  }
  expect(Buffer.from(first).toString("hex")).toBe(copy);
});
