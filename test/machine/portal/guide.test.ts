import { expect, it } from "vitest";
import { bundleScript } from "#portal/bundle-script.ts";

const KIB = 1_024;

it("the guide's script stays small", () => {
  expect(bundleScript("guide.js").length).toBeLessThan(10 * KIB);
});
