/**
 * Workflow threads without two SDK features that take two thirds of a workflow's thread time, measured
 * (docs/decisions/0007). One is a watchdog thread for every call into workflow code; a heartbeat per thread replaces
 * it. The other is a source-mapped stack for every promise; it serves the stack-trace query, which the SDK treats as
 * optional.
 */
import { createRequire } from "node:module";
import { promiseHooks, setFlagsFromString } from "node:v8";
import type { Worker, WorkerOptions } from "node:worker_threads";
import type { Timer, Timers } from "#domain/clock.ts";

/** Heap and stack limits of the whole process. Threads inherit them, and reject them as arguments. */
const PROCESS_LIMIT =
  /^--(?:(?:max|min|initial)[-_](?:old[-_]|semi[-_])?(?:space|heap)[-_]size|stack[-_]size)\b/;

const THREAD_FILE = /[\\/]workflow-worker-thread\.js$/;
/** What a thread's activations make is garbage soon. With 32 MiB, a thread had 85 MiB at saturation, and cost the same CPU. */
const SEMI_SPACE_MIB = 8;
const BEAT_MS = 1_000;
/** Longer than any valid workflow task, even on a swapping machine. */
const SILENT_MAX_MS = 30_000;

/**
 * Runs in the thread before the SDK. Node creates its own hook for AsyncLocalStorage in the same way, but with
 * `before` and `after`. The hook without them is the SDK's. The SDK takes the error for missing support in Node and
 * writes a warning, which is suppressed.
 */
const PRELOAD = `data:text/javascript,${encodeURIComponent(`
  import { promiseHooks } from "node:v8";
  import vm from "node:vm";
  import { workerData } from "node:worker_threads";
  const { createHook } = promiseHooks;
  promiseHooks.createHook = (hooks) => {
    if (hooks.before === undefined && hooks.after === undefined) throw new Error("stack traces are left out");
    return createHook(hooks);
  };
  const { warn } = console;
  console.warn = (...line) => { if (!String(line[0]).includes("promiseHooks")) warn(...line); };
  const { runInContext } = vm.Script.prototype;
  vm.Script.prototype.runInContext = function (context, options) {
    return runInContext.call(this, context, options === undefined ? undefined : { ...options, timeout: undefined });
  };
  const beats = new Int32Array(workerData.signetBeats);
  setInterval(() => Atomics.add(beats, 0, 1), ${BEAT_MS}).unref();
`)}`;

/**
 * Runs replays, which the SDK makes in this process. It would leave a hook of every promise behind, for stack traces. The
 * hook fails at promises without a constructor, as WebCrypto makes some, and that ends the process.
 */
export async function withoutStackTraces<T>(run: () => Promise<T>): Promise<T> {
  const { createHook } = promiseHooks;
  const { warn } = console;
  promiseHooks.createHook = (hooks) => {
    // As in the threads: Node's own hook has one of these.
    if (hooks.before === undefined && hooks.after === undefined) {
      throw new Error("stack traces are left out");
    }
    return createHook.call(promiseHooks, hooks);
  };
  console.warn = (...line: unknown[]) => {
    if (!String(line[0]).includes("promiseHooks")) {
      warn(...line);
    }
  };
  try {
    return await run();
  } finally {
    promiseHooks.createHook = createHook;
    console.warn = warn;
  }
}

export interface LeanThreadsOptions {
  /** Called if a thread has not responded for this long. Its workflows are stuck, and only a new process helps. */
  readonly onStuck: (silentMs: number) => void;
  /** By default 30 s. */
  readonly silentMaxMs?: number;
  readonly timers: Timers;
}

/** Calls back if the heartbeats stop while this thread runs. @returns its timer */
function watch(beats: Int32Array, options: LeanThreadsOptions): Timer {
  const { onStuck, timers, silentMaxMs = SILENT_MAX_MS } = options;
  let seen = -1;
  let lookedAtMs = timers.monotonic();
  let silentMs = 0;
  const timer = timers.every(BEAT_MS, () => {
    const nowMs = timers.monotonic();
    const beat = Atomics.load(beats, 0);
    // Ignore time in which this thread did not run either, for instance in a stopped process.
    silentMs = beat === seen ? silentMs + Math.min(nowMs - lookedAtMs, 2 * BEAT_MS) : 0;
    lookedAtMs = nowMs;
    seen = beat;
    if (silentMs >= silentMaxMs) {
      timers.cancel(timer);
      onStuck(silentMs);
    }
  });
  return timer.unref();
}

let installed: LeanThreadsOptions | undefined;

function threadArguments(): string[] {
  return process.execArgv.filter((argument) => !PROCESS_LIMIT.test(argument));
}

/** Starts further workflow threads of this process without these features. Other threads are unaffected. */
export function useLeanWorkflowThreads(options: LeanThreadsOptions): void {
  const first = installed === undefined;
  installed = options;
  if (!first) {
    return;
  }
  // Read when a heap is created, so this thread keeps the size that it began with. `resourceLimits` loses to the flag.
  setFlagsFromString(`--max-semi-space-size=${SEMI_SPACE_MIB}`);
  // The SDK reads the class from the module when it starts a thread.
  const threads = createRequire(import.meta.url)("node:worker_threads") as { Worker: typeof Worker };
  threads.Worker = class extends threads.Worker {
    constructor(file: string | URL, given: WorkerOptions = {}) {
      if (!THREAD_FILE.test(String(file))) {
        super(file, given);
        return;
      }
      const signetBeats = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
      super(file, {
        ...given,
        workerData: { signetBeats },
        execArgv: [...(given.execArgv ?? threadArguments()), "--import", PRELOAD],
      });
      const watched = installed ?? options;
      const timer = watch(new Int32Array(signetBeats), watched);
      this.once("exit", () => watched.timers.cancel(timer));
    }
  };
}
