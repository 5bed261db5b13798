/** Processes that only compute, to measure on a machine that other programs keep busy. */
import { spawn } from "node:child_process";
import type { Janitor } from "./janitor.ts";

/** Starts `count` processes that each keep one core busy. The janitor ends them. Returns their pids. */
export function startBusy(count: number, janitor: Janitor): number[] {
  return Array.from({ length: count }, () => {
    const child = spawn(process.execPath, ["--eval", "for (;;);"], { stdio: "ignore", detached: true });
    child.unref();
    const { pid } = child;
    if (pid === undefined) {
      throw new Error("a busy process did not start");
    }
    janitor.mind(pid, "SIGKILL");
    return pid;
  });
}
