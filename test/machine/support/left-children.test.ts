import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { killChildren, noteChild, noteChildrenOf } from "#test/support/interrupt-on-exit.ts";

test("children that their tests left are killed at the end of the run, and no others", async () => {
  const run = await mkdtemp(join(tmpdir(), "signet-children-"));
  const start = (): ReturnType<typeof spawn> => spawn("sleep", ["60"], { stdio: "ignore" });
  const [left, ended, other] = [start(), start(), start()];
  // What it is set to here is taken back at the end.
  vi.stubEnv("SIGNET_TEST_RUN", undefined);
  try {
    expect(killChildren(run)).toEqual([]);
    noteChildrenOf(run);
    noteChild(left.pid);
    noteChild(ended.pid);
    ended.kill();
    await once(ended, "exit");
    expect(killChildren(run)).toEqual([left.pid]);
    await once(left, "exit");
    expect(left.signalCode).toBe("SIGKILL");
    expect(killChildren(run)).toEqual([]);
    expect(other.exitCode ?? other.signalCode).toBeNull();
  } finally {
    other.kill("SIGKILL");
    vi.unstubAllEnvs();
    await rm(run, { recursive: true });
  }
});
