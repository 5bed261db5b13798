/** CPU and memory of process trees, from /proc. Linux only; elsewhere every value is zero. */
import { readdirSync, readFileSync } from "node:fs";

/** USER_HZ, the unit of times in /proc: 100 on all common Linux systems. */
const TICKS_PER_SECOND = 100;
const KIB_PER_MIB = 1_024;

/** Field numbers of proc_pid_stat(5), counted from the one after the parenthesised command. */
const PARENT = 1;
const FIRST_TIME = 11;
const LAST_TIME = 14;

interface ProcessTimes {
  readonly parent: number;
  /** User and system time, including ended children that were waited for. */
  readonly cpuSeconds: number;
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

/** Returns the fields of proc_pid_stat(5) after the parenthesised command; undefined if the process has ended. */
export function statFields(pid: number): readonly string[] | undefined {
  const stat = read(`/proc/${pid}/stat`);
  return stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
}

/** Returns the pids of all processes. */
export function allPids(): readonly number[] {
  const names = process.platform === "linux" ? readdirSync("/proc") : [];
  return names.filter((name) => /^\d+$/.test(name)).map(Number);
}

function readTimes(pid: number): ProcessTimes | undefined {
  const fields = statFields(pid);
  if (fields === undefined) {
    return undefined;
  }
  let ticks = 0;
  for (let field = FIRST_TIME; field <= LAST_TIME; field += 1) {
    ticks += Number(fields[field]);
  }
  return { parent: Number(fields[PARENT]), cpuSeconds: ticks / TICKS_PER_SECOND };
}

function allProcesses(): Map<number, ProcessTimes> {
  const processes = new Map<number, ProcessTimes>();
  for (const pid of allPids()) {
    const times = readTimes(pid);
    if (times !== undefined) {
      processes.set(pid, times);
    }
  }
  return processes;
}

function treeOf(root: number, processes: ReadonlyMap<number, ProcessTimes>): number[] {
  const tree = processes.has(root) ? [root] : [];
  for (const parent of tree) {
    for (const [pid, times] of processes) {
      if (times.parent === parent) {
        tree.push(pid);
      }
    }
  }
  return tree;
}

/** Returns a process and its descendants, parents first. */
export function processTree(root: number): number[] {
  return treeOf(root, allProcesses());
}

/** Returns the CPU-seconds that each tree has used since it started, by name. */
export function cpuSeconds(roots: Readonly<Record<string, number>>): Record<string, number> {
  const processes = allProcesses();
  const seconds = Object.entries(roots).map(([name, root]): [string, number] => {
    const tree = treeOf(root, processes);
    return [name, tree.reduce((sum, pid) => sum + (processes.get(pid)?.cpuSeconds ?? 0), 0)];
  });
  return Object.fromEntries(seconds);
}

/** Returns each tree's proportional set size in MiB. Shared pages are divided among their users. */
export function pssMiB(roots: Readonly<Record<string, number>>): Record<string, number> {
  const processes = allProcesses();
  const sizes = Object.entries(roots).map(([name, root]): [string, number] => {
    let kib = 0;
    for (const pid of treeOf(root, processes)) {
      kib += Number(/^Pss: +(\d+) kB/m.exec(read(`/proc/${pid}/smaps_rollup`) ?? "")?.[1] ?? 0);
    }
    return [name, kib / KIB_PER_MIB];
  });
  return Object.fromEntries(sizes);
}

/** Returns a process's highest resident set since its start, in MiB. */
export function residentPeakMiB(pid: number): number {
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(read(`/proc/${pid}/status`) ?? "")?.[1] ?? 0) / KIB_PER_MIB;
}

/** Returns the machine's busy CPU-seconds since its start, and those that the hypervisor took. */
export function machineCpuSeconds(): { readonly busy: number; readonly stolen: number } {
  const [, ...fields] = (read("/proc/stat")?.split("\n")[0] ?? "").split(/ +/).map(Number);
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = fields;
  return {
    busy: (user + nice + system + irq + softirq) / TICKS_PER_SECOND,
    stolen: steal / TICKS_PER_SECOND,
  };
}
