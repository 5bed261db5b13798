import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { afterEach, describe, expect, test } from "vitest";
import { ProcessTree } from "#test/flaky/processes.ts";
import { eventually } from "#test/support/eventually.ts";

const children: number[] = [];
afterEach(() => children.splice(0).forEach((pid) => process.kill(pid, "SIGKILL")));

/** Starts a process that starts another, and returns the pids of both. */
async function startPair(): Promise<readonly [parent: number, child: number]> {
  const parent = spawn("sh", ["-c", "sleep 600 & echo $!; wait"], { stdio: ["ignore", "pipe", "ignore"] });
  const child = await new Promise<number>((resolve) => {
    parent.stdout.once("data", (text: Buffer) => resolve(Number(text)));
  });
  children.push(child, parent.pid ?? 0);
  return [parent.pid ?? 0, child];
}

const stateOf = (pid: number): string => readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.[0] ?? "";
const untilState = async (pid: number, state: RegExp): Promise<void> => {
  await eventually(() => state.test(stateOf(pid)), `state ${String(state)} of ${pid}`);
};

describe.runIf(process.platform === "linux")("a tree of processes", () => {
  test("stops with all descendants, and goes on", async () => {
    const [parent, child] = await startPair();
    const tree = new ProcessTree(parent);
    tree.stop();
    await untilState(parent, /T/);
    await untilState(child, /T/);
    tree.goOn();
    await untilState(parent, /[RS]/);
    await untilState(child, /[RS]/);
  });

  test("leaves a process stopped that a test has stopped", async () => {
    const [parent, child] = await startPair();
    const tree = new ProcessTree(parent);
    process.kill(child, "SIGSTOP");
    await untilState(child, /T/);
    tree.stop();
    tree.goOn();
    await untilState(parent, /[RS]/);
    expect(stateOf(child)).toBe("T");
    process.kill(child, "SIGCONT");
  });

  test("includes a process whose parent has ended", async () => {
    const [parent, child] = await startPair();
    const tree = new ProcessTree(parent);
    tree.look();
    process.kill(parent, "SIGKILL");
    children.splice(children.indexOf(parent), 1);
    await eventually(() => tree.look().every(({ pid, state }) => pid !== parent || state === "Z"), "its end");
    tree.stop();
    await untilState(child, /T/);
    tree.goOn();
  });
});
