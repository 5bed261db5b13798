import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, it } from "vitest";
import { commandLine, isRunning, processIdentity } from "#processes/embedded/process-identity.ts";

it("an identity stays the same while its process runs, and ends with it", async () => {
  const child = spawn(process.execPath, ["-e", "process.stdin.resume(); console.log()", "marker"]);
  // Its own program runs: before that, Linux may show no command line.
  await once(child.stdout, "data");
  const pid = child.pid ?? 0;
  const identity = processIdentity(pid);
  expect(identity).toMatch(new RegExp(`^${pid}/`));
  expect(processIdentity(pid)).toBe(identity);
  expect(identity).not.toBe(processIdentity(process.pid));
  expect(commandLine(pid)).toContain("marker");
  child.kill("SIGKILL");
  await once(child, "exit");
  expect(isRunning(pid)).toBe(false);
});

it("an invalid pid has no identity", () => {
  expect([Number.NaN, 0, -1, 1.5].map(isRunning)).toEqual([false, false, false, false]);
});
