/**
 * Workflow threads without two conveniences of the SDK that cost two thirds of a workflow's time in its thread, measured
 * (docs/decisions/0007): a watchdog thread for every single call into workflow code, and a formatted stack, through
 * source maps, for every promise that it makes. In place of the first, one beat per thread says that it goes on; the
 * second serves the stack-trace query, which the SDK counts as optional.
 */
import { createRequire } from "node:module";
import type { Worker, WorkerOptions } from "node:worker_threads";

/** Limits of the heap or stack of the whole process. A thread follows them, and refuses them as arguments of its own. */
const PROCESS_LIMIT =
  /^--(?:(?:max|min|initial)[-_](?:old[-_]|semi[-_])?(?:space|heap)[-_]size|stack[-_]size)\b/;

const THREAD_FILE = /[\\/]workflow-worker-thread\.js$/;
const BEAT_MS = 1_000;
/** Longer than any honest workflow task, and than a machine that swaps. */
const SILENT_MAX_MS = 30_000;

/**
 * Runs in the thread before the SDK does. Node makes its own hook for AsyncLocalStorage in the same way, with `before`
 * and `after`; the one without them is the SDK's, which takes the error for a Node that cannot make hooks, and says so
 * on the console.
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

export interface LeanThreadsOptions {
  /** A thread has not come to itself for so long: its workflows stand still, and only a new process helps. */
  readonly onStuck: (silentMs: number) => void;
  /** 30 s unless said otherwise. */
  readonly silentMaxMs?: number;
  /** Milliseconds that only go forward. */
  readonly monotonicMs: () => number;
}

/** Calls back when the beats stop while this thread itself goes on. @returns the timer that looks */
function watch(beats: Int32Array, options: LeanThreadsOptions): NodeJS.Timeout {
  const { onStuck, monotonicMs, silentMaxMs = SILENT_MAX_MS } = options;
  let seen = -1;
  let lookedAtMs = monotonicMs();
  let silentMs = 0;
  const timer = setInterval(() => {
    const nowMs = monotonicMs();
    const beat = Atomics.load(beats, 0);
    // Time in which this thread stood still too, for instance a stopped process, says nothing of the other.
    silentMs = beat === seen ? silentMs + Math.min(nowMs - lookedAtMs, 2 * BEAT_MS) : 0;
    lookedAtMs = nowMs;
    seen = beat;
    if (silentMs >= silentMaxMs) {
      clearInterval(timer);
      onStuck(silentMs);
    }
  }, BEAT_MS).unref();
  return timer;
}

let installed: LeanThreadsOptions | undefined;

function threadArguments(): string[] {
  return process.execArgv.filter((argument) => !PROCESS_LIMIT.test(argument));
}

/** From now on, workflow threads of this process are started lean. Other threads are started as ever. */
export function useLeanWorkflowThreads(options: LeanThreadsOptions): void {
  const first = installed === undefined;
  installed = options;
  if (!first) {
    return;
  }
  // The SDK looks the class up in the module when it starts a thread.
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
      const timer = watch(new Int32Array(signetBeats), installed ?? options);
      this.once("exit", () => clearInterval(timer));
    }
  };
}
