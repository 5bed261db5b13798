/**
 * Identity of a process. A pid alone is ambiguous: after a crash or a reboot another process may have it. A pid with
 * its process's start time is unique.
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";

/** Field numbers of proc_pid_stat(5), counted from the one after the parenthesised command. */
const STATE = 0;
const START_TIME = 19;

function readProc(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

function identityFromPs(pid: number): string | undefined {
  const { stdout } = spawnSync("ps", ["-o", "stat=,lstart=", "-p", String(pid)], { encoding: "utf8" });
  const [state = "", ...start] = (stdout ?? "").trim().split(/\s+/);
  return state === "" || state.startsWith("Z") ? undefined : `${pid}/${start.join(" ")}`;
}

/**
 * Returns a text unique to the process; `undefined` if no such process runs. A process that has ended
 * and was not yet reaped (in containers without an init) does not run.
 */
export function processIdentity(pid: number): string | undefined {
  if (!Number.isInteger(pid) || pid <= 0) {
    return undefined;
  }
  if (process.platform !== "linux") {
    return identityFromPs(pid);
  }
  const stat = readProc(`/proc/${pid}/stat`);
  if (stat === undefined) {
    return undefined;
  }
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ended = fields[STATE] === "Z" || fields[STATE] === "X";
  const boot = readProc("/proc/sys/kernel/random/boot_id")?.trim() ?? "";
  return ended ? undefined : `${pid}/${fields[START_TIME]}/${boot}`;
}

/** Whether any process with this pid runs. */
export function isRunning(pid: number): boolean {
  return processIdentity(pid) !== undefined;
}

/** Returns the process's command line, program first; empty if unknown. */
export function commandLine(pid: number): readonly string[] {
  if (process.platform === "linux") {
    return (readProc(`/proc/${pid}/cmdline`) ?? "").split("\0").slice(0, -1);
  }
  const { stdout } = spawnSync("ps", ["-ww", "-o", "command=", "-p", String(pid)], { encoding: "utf8" });
  return (stdout ?? "").trim().split(" ");
}
