/** The thread that ticks for `pauses.ts`. */
import { workerData } from "node:worker_threads";
import { monotonicMs } from "./monotonic.ts";
import { keepTicking, type Notes } from "./pauses.ts";

const TICK_MS = 10;
const never = new Int32Array(new SharedArrayBuffer(4));

keepTicking(workerData as Notes, monotonicMs, () => Atomics.wait(never, 0, 0, TICK_MS) === "timed-out");
