import { expect, test } from "vitest";
import { freePorts } from "#test/support/free-port.ts";

test("a process that has asked for more ports than its range holds gets further ones", async () => {
  for (let round = 0; round < 25; round += 1) {
    const ports = await freePorts(100);
    expect(new Set(ports).size).toBe(100);
  }
});
