/**
 * Preloaded into a process (see jumping-clock.ts). Moves its wall clock ahead by the milliseconds in the file
 * TEST_CLOCK_OFFSET_FILE, which may change at any time. Monotonic time and timers are unaffected.
 */
import { readFileSync } from "node:fs";

const READ_AGAIN_MS = 20;
const file = process.env["TEST_CLOCK_OFFSET_FILE"] ?? "";
const SystemDate = Date;
let offsetMs = 0;

function read() {
  try {
    offsetMs = Number(readFileSync(file, "utf8"));
  } catch {
    // The file is not written yet, or was removed at the end of the test.
  }
}

read();
setInterval(read, READ_AGAIN_MS).unref();

const now = () => SystemDate.now() + offsetMs;

globalThis.Date = new Proxy(SystemDate, {
  apply: () => new SystemDate(now()).toString(),
  construct: (target, values, constructor) =>
    Reflect.construct(target, values.length === 0 ? [now()] : values, constructor),
  get: (target, member) => (member === "now" ? now : Reflect.get(target, member)),
});
