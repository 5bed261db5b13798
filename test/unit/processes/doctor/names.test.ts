/** Name resolution in `signet doctor`. */
import { expect, test } from "vitest";
import { examine } from "#processes/doctor/checks.ts";

test("an unresolvable name in the settings is reported, whatever else fails", async () => {
  const resolve = async (name: string): Promise<void> => {
    if (name === "db.invalid") {
      throw new Error("ENOTFOUND");
    }
    await Promise.resolve();
  };
  // The rest of the service is missing: every other check fails, and this one still runs.
  const look = async (names: readonly string[]) => {
    const findings = await examine({ names, resolve } as unknown as Parameters<typeof examine>[0]);
    return findings.find(({ check }) => check === "dns");
  };
  expect(await look(["localhost", "db.invalid"])).toEqual({
    check: "dns",
    ok: false,
    detail: expect.stringContaining("cannot resolve db.invalid:") as string,
  });
  expect(await look(["localhost"])).toMatchObject({ ok: true });
});
