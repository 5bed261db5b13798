import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { createRequire } from "node:module";
import { join } from "node:path";
import { once } from "node:events";
import type { Worker } from "node:worker_threads";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { useLeanWorkflowThreads } from "#temporal/workflow-threads.ts";
import { eventually } from "#test/support/eventually.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const threads = createRequire(import.meta.url)("node:worker_threads") as { Worker: typeof Worker };
const SILENT_MAX_MS = 2_000;

let directory: string;
const running: Worker[] = [];

/** Makes further threads report here. @returns the durations of silence that were reported */
function watchThreads(): readonly number[] {
  const stuck: number[] = [];
  useLeanWorkflowThreads({
    onStuck: (silentMs) => stuck.push(silentMs),
    silentMaxMs: SILENT_MAX_MS,
    timers: machineTimers,
  });
  return stuck;
}

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "signet-threads-"));
  watchThreads();
});

afterEach(async () => {
  await Promise.all(running.splice(0).map(async (thread) => await thread.terminate()));
  await rm(directory, { recursive: true });
});

/** Starts a thread with the SDK's file name; it evaluates the code it gets and answers. */
async function start(name = "workflow-worker-thread.js"): Promise<(code: string) => Promise<unknown>> {
  // A file of its own: an earlier thread may still be reading one of the same name.
  const file = join(await mkdtemp(join(directory, "thread-")), name);
  await writeFile(
    file,
    `const { parentPort } = require("node:worker_threads");
     parentPort.on("message", (code) => {
       try { parentPort.postMessage(String(eval(code))); } catch (error) { parentPort.postMessage(error.message); }
     });
     setInterval(() => undefined, 1_000);`,
  );
  const thread = new threads.Worker(file);
  running.push(thread);
  await once(thread, "online");
  return async (code) => {
    // eslint-disable-next-line unicorn/require-post-message-target-origin -- a thread is not a window
    thread.postMessage(code);
    const [answer] = (await once(thread, "message")) as [unknown];
    return answer;
  };
}

const BUSY = `require("node:vm").runInContext(
  "const end = Date.now() + 100; while (Date.now() < end); 'ended'", require("node:vm").createContext({ Date }));`;
/** Blocks the thread for this long without using the processor. */
const block = (ms: string): string => `Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ${ms})`;
const BUSY_WITH_TIMEOUT = `new (require("node:vm").Script)("const end = Date.now() + 100; while (Date.now() < end); 'ended'")
  .runInContext(require("node:vm").createContext({ Date }), { timeout: 10 })`;
const PROMISE_HOOK = 'typeof require("node:v8").promiseHooks.createHook({ init() {} })';
/** Fills the young generation with objects that survive a collection, so it grows as far as it may. @returns its MiB */
const YOUNG_MIB = `const kept = Array.from({ length: 2_000 }, () => []);
  for (let n = 0; n < 15_000; n += 1) { kept[n % kept.length] = new Array(2_000).fill(n); }
  require("node:v8").getHeapSpaceStatistics().find(({ space_name: name }) => name === "new_space").space_size / 2 ** 20`;
const ASYNC_LOCAL_STORAGE = `const { AsyncLocalStorage } = require("node:async_hooks");
  new AsyncLocalStorage().run("kept", () => "kept")`;

describe("a workflow thread", () => {
  test("runs workflow code without a watchdog for each call", async () => {
    const ask = await start();
    expect(await ask(BUSY)).toBe("ended");
    expect(await ask(BUSY_WITH_TIMEOUT)).toBe("ended");
  });

  test("skips the SDK's promise hook and keeps Node's own", async () => {
    const ask = await start();
    expect(await ask(PROMISE_HOOK)).toBe("stack traces are left out");
    expect(await ask(ASYNC_LOCAL_STORAGE)).toBe("kept");
  });

  test("has two halves of 8 MiB for young objects, whatever the process has", async () => {
    const ask = await start();
    const mib = Number(await ask(YOUNG_MIB));
    expect(mib).toBeGreaterThan(8);
    expect(mib).toBeLessThanOrEqual(16);
  });

  test("starts in a process whose heap is limited on the command line", async () => {
    const before = process.execArgv;
    process.execArgv = [
      ...before,
      "--max-old-space-size=512",
      "--max-semi-space-size=16",
      "--stack-size=900",
    ];
    try {
      const ask = await start();
      expect(await ask("1 + 1")).toBe("2");
    } finally {
      process.execArgv = before;
    }
  });

  test("that never responds is reported, once, and none that works or is idle", async () => {
    const stuck = watchThreads();
    const hung = await start();
    void hung(block("Infinity"));
    const others = watchThreads();
    const [busy, idle] = [await start(), await start()];
    const end = performance.now() + 2 * SILENT_MAX_MS;
    while (performance.now() < end) {
      expect(await busy(block("100"))).toBe("timed-out");
    }
    expect(await idle("1 + 1")).toBe("2");
    expect(others).toEqual([]);
    await eventually(() => stuck.length > 0, "the report of the thread");
    expect(stuck).toHaveLength(1);
    expect(stuck[0]).toBeGreaterThanOrEqual(SILENT_MAX_MS);
  });
});

test("any other thread starts as usual", async () => {
  const ask = await start("something-else.js");
  expect(await ask(BUSY_WITH_TIMEOUT)).toMatch(/timed out/);
  expect(await ask(PROMISE_HOOK)).toBe("function");
});
