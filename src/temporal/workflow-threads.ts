/**
 * Workflow threads without two SDK features that take two thirds of a workflow's thread time, measured
 * (docs/decisions/0007). One is a watchdog thread for every call into workflow code; a heartbeat per thread replaces
 * it. The other formats a source-mapped stack for every promise, for the stack-trace query; here a stack is kept as V8
 * captured it, and formatted if a query asks.
 */
import { createRequire } from "node:module";
import type { Worker, WorkerOptions } from "node:worker_threads";

/** Heap and stack limits of the whole process. Threads inherit them, and reject them as arguments. */
const PROCESS_LIMIT =
  /^--(?:(?:max|min|initial)[-_](?:old[-_]|semi[-_])?(?:space|heap)[-_]size|stack[-_]size)\b/;

const THREAD_FILE = /[\\/]workflow-worker-thread\.js$/;
const BEAT_MS = 1_000;
/** Longer than any valid workflow task, even on a swapping machine. */
const SILENT_MAX_MS = 30_000;

/**
 * Runs in the thread before the SDK. Node creates its own hook for AsyncLocalStorage in the same way, but with
 * `before` and `after`. The hook without them is the SDK's. Ours fills the same store of the workflow.
 */
const PRELOAD = `data:text/javascript,${encodeURIComponent(`
  import { promiseHooks } from "node:v8";
  import vm from "node:vm";
  import { workerData } from "node:worker_threads";
  const { createHook } = promiseHooks;
  const contexts = new WeakMap();
  function contextOf({ constructor }) {
    let context = contexts.get(constructor);
    if (context === undefined) {
      context = constructor.constructor("return globalThis")();
      contexts.set(constructor, context);
    }
    return context;
  }
  class Stack {
    #error;
    constructor(error) { this.#error = error; }
    get #lines() {
      const lines = String(this.#error.stack).split("\\n").slice(1);
      const end = lines.findIndex((line) => /Activator\\.\\S+NextHandler/.test(line));
      return lines.slice(0, end < 0 ? undefined : end).filter((line) => !/data:text|node:internal/.test(line));
    }
    get formatted() { return this.#lines.join("\\n"); }
    get structured() {
      return this.#lines.map((line) => {
        const [, name, path, row, column] = /^ *at (?:(.*) \\()?(.*?):(\\d+):(\\d+)\\)?$/.exec(line) ?? [, line.trim()];
        return {
          function_name: name, file_path: path, internal_code: false,
          line: row === undefined ? undefined : Number(row), column: column === undefined ? undefined : Number(column),
        };
      });
    }
  }
  const NONE = [];
  promiseHooks.createHook = (hooks) => {
    if (hooks.before !== undefined || hooks.after !== undefined) return createHook(hooks);
    return createHook({
      init(promise, parent) {
        const context = contextOf(promise);
        const activator = context.__TEMPORAL_ACTIVATOR__;
        if (activator === undefined) return;
        const { childToParent, promiseToStack } = activator.promiseStackStore;
        promiseToStack.set(promise, new Stack(new context.Error()));
        childToParent.set(promise, parent === undefined ? NONE : [parent]);
      },
      settled(promise) {
        const activator = contextOf(promise).__TEMPORAL_ACTIVATOR__;
        if (activator === undefined) return;
        activator.promiseStackStore.childToParent.delete(promise);
        activator.promiseStackStore.promiseToStack.delete(promise);
      },
    });
  };
  const { runInContext } = vm.Script.prototype;
  vm.Script.prototype.runInContext = function (context, options) {
    return runInContext.call(this, context, options === undefined ? undefined : { ...options, timeout: undefined });
  };
  const beats = new Int32Array(workerData.signetBeats);
  setInterval(() => Atomics.add(beats, 0, 1), ${BEAT_MS}).unref();
`)}`;

export interface LeanThreadsOptions {
  /** Called if a thread has not responded for this long. Its workflows are stuck, and only a new process helps. */
  readonly onStuck: (silentMs: number) => void;
  /** By default 30 s. */
  readonly silentMaxMs?: number;
  /** A monotonic clock, in milliseconds. */
  readonly monotonicMs: () => number;
}

/** Calls back if the heartbeats stop while this thread runs. @returns its timer */
function watch(beats: Int32Array, options: LeanThreadsOptions): NodeJS.Timeout {
  const { onStuck, monotonicMs, silentMaxMs = SILENT_MAX_MS } = options;
  let seen = -1;
  let lookedAtMs = monotonicMs();
  let silentMs = 0;
  const timer = setInterval(() => {
    const nowMs = monotonicMs();
    const beat = Atomics.load(beats, 0);
    // Ignore time in which this thread did not run either, for instance in a stopped process.
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

/** Starts further workflow threads of this process with {@link PRELOAD}. Other threads are unaffected. */
export function useLeanWorkflowThreads(options: LeanThreadsOptions): void {
  const first = installed === undefined;
  installed = options;
  if (!first) {
    return;
  }
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
      const timer = watch(new Int32Array(signetBeats), installed ?? options);
      this.once("exit", () => clearInterval(timer));
    }
  };
}
