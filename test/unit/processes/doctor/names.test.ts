/** What `signet doctor` says of names. */
import { expect, test } from "vitest";
import { examine } from "../../../../src/processes/doctor/checks.ts";

test("a name of the settings that does not resolve is named, whatever else is wrong", async () => {
  const resolve = async (name: string): Promise<void> => {
    if (name === "db.invalid") {
      throw new Error("ENOTFOUND");
    }
    await Promise.resolve();
  };
  // There is nothing else of the service here: every other check fails, and none of them keeps this one from running.
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
