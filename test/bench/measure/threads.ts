/** CPU time of a process's threads, from /proc. It includes native threads, which JavaScript profiles lack. */
import { readdirSync, readFileSync } from "node:fs";

const TICKS_PER_SECOND = 100;
const USER_TIME = 11;
const SYSTEM_TIME = 12;

/** Returns CPU-seconds by thread, named `<command> <thread id>`; empty without /proc. */
export function threadSeconds(pid: number): Record<string, number> {
  const seconds: Record<string, number> = {};
  let threads: string[];
  try {
    threads = readdirSync(`/proc/${pid}/task`);
  } catch {
    return seconds;
  }
  for (const thread of threads) {
    try {
      const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, "utf8");
      const end = stat.lastIndexOf(")");
      const fields = stat.slice(end + 2).split(" ");
      const ticks = Number(fields[USER_TIME]) + Number(fields[SYSTEM_TIME]);
      const name = Number(thread) === pid ? "main" : stat.slice(stat.indexOf("(") + 1, end);
      seconds[`${name} ${thread}`] = ticks / TICKS_PER_SECOND;
    } catch {
      // The thread has ended.
    }
  }
  return seconds;
}
