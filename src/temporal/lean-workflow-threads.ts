/**
 * Workflow threads without the SDK's promise hook. For the stack-trace query the SDK formats a stack, through source
 * maps, for every promise that workflow code makes; measured, that is most of what a workflow costs in its thread
 * (docs/decisions/0007). The SDK counts the hook as optional: where Node cannot make one, it goes on without.
 */
import { createRequire } from "node:module";
import type { Worker, WorkerOptions } from "node:worker_threads";

const THREAD_FILE = /[\\/]workflow-worker-thread\.js$/;
/**
 * Runs in the thread before the SDK does. Node makes its own hook for AsyncLocalStorage in the same way, with `before`
 * and `after`; the one without them is the SDK's, which takes the error for a Node that cannot make hooks, and says so
 * on the console.
 */
const PRELOAD = `data:text/javascript,${encodeURIComponent(`
  import { promiseHooks } from "node:v8";
  const { createHook } = promiseHooks;
  promiseHooks.createHook = (hooks) => {
    if (hooks.before === undefined && hooks.after === undefined) throw new Error("stack traces are left out");
    return createHook(hooks);
  };
  const { warn } = console;
  console.warn = (...line) => { if (!String(line[0]).includes("promiseHooks")) warn(...line); };
`)}`;

let installed = false;

/** From now on, workflow threads of this process are started lean. Other threads are started as ever. */
export function useLeanWorkflowThreads(): void {
  if (installed) {
    return;
  }
  installed = true;
  // The SDK looks the class up in the module when it starts a thread.
  const threads = createRequire(import.meta.url)("node:worker_threads") as {
    Worker: typeof Worker;
  };
  threads.Worker = class extends threads.Worker {
    constructor(file: string | URL, options: WorkerOptions = {}) {
      const lean = THREAD_FILE.test(String(file));
      super(
        file,
        lean
          ? { ...options, execArgv: [...(options.execArgv ?? process.execArgv), "--import", PRELOAD] }
          : options,
      );
    }
  };
}
