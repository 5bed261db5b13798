import { lookup } from "node:dns/promises";
import { expect, test } from "vitest";
import { examine } from "#processes/doctor/checks.ts";

test("signet doctor resolves any number of names with the machine's resolver", async () => {
  const names = ["localhost", "localhost", "localhost"];
  const findings = await examine({ names, resolve: lookup } as unknown as Parameters<typeof examine>[0]);
  expect(findings.find(({ check }) => check === "dns")).toEqual({
    check: "dns",
    ok: true,
    detail: "3 names in the settings resolve",
  });
});
