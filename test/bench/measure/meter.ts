/** Measures the resources of the processes while a scenario runs. */
import { setTimeout as delay } from "node:timers/promises";
import { walBytes } from "../environment/postgres.ts";
import { monotonicMs } from "../load/monotonic.ts";
import type { TimeWindow } from "./cpu-profile.ts";
import { cpuSeconds, machineCpuSeconds, pssMiB } from "./process-tree.ts";
import { threadSeconds } from "./threads.ts";

const IDLE_MS = 2_000;
const SAMPLE_MS = 2_000;
/** Time for Temporal to write visibility and close workflows after the last delivery. */
const SETTLE_MS = 5_000;

/** Root pids by name. The load generators are counted separately from the system. */
export interface Roots {
  readonly system: Readonly<Record<string, number>>;
  readonly load: Readonly<Record<string, number>>;
}

/** What is measured: a world. */
interface Measured {
  readonly roots: Roots;
  readonly adminDatabaseUrl: string;
}

export interface Usage {
  /** CPU-seconds from the start to the last arrival, by process tree. */
  readonly cpu: Readonly<Record<string, number>>;
  /** The same, measured {@link SETTLE_MS} later. */
  readonly cpuSettled: Readonly<Record<string, number>>;
  /** CPU-seconds per second before the start. */
  readonly idle: Readonly<Record<string, number>>;
  readonly load: Readonly<Record<string, number>>;
  /** CPU-seconds of unrelated programs. On a busy machine the figures are worthless. */
  readonly others: number;
  /** CPU-seconds taken by the hypervisor. */
  readonly stolen: number;
  /** Bytes that PostgreSQL wrote to its WAL for all databases, from the start to {@link SETTLE_MS} after the last arrival. */
  readonly wal: number;
  /** Memory at the end by process tree, and the highest observed sum of Signet's processes. */
  readonly pss: Readonly<Record<string, number>>;
  readonly signetPssPeak: number;
  readonly window: TimeWindow;
  /** CPU-seconds of Signet's active threads, by process. */
  readonly threads: Readonly<Record<string, Numbers>>;
}

type Numbers = Readonly<Record<string, number>>;

function difference(after: Numbers, before: Numbers): Record<string, number> {
  return Object.fromEntries(
    Object.entries(after).map(([name, value]) => [name, value - (before[name] ?? 0)]),
  );
}

export function sum(values: Numbers): number {
  return Object.values(values).reduce((total, value) => total + value, 0);
}

/** Returns Signet's processes alone. */
export function signetOnly(roots: Numbers): Record<string, number> {
  return Object.fromEntries(Object.entries(roots).filter(([name]) => name.startsWith("signet_")));
}

/** Smaller values are noise. */
const THREAD_SECONDS_SHOWN = 0.05;

function busyThreads(after: Reading["threads"], before: Reading["threads"]): Usage["threads"] {
  const processes = Object.entries(after).map(([name, threads]): [string, Numbers] => {
    const used = Object.entries(difference(threads, before[name] ?? {}));
    const busy = used.filter(([, seconds]) => seconds >= THREAD_SECONDS_SHOWN);
    return [name, Object.fromEntries(busy.map(([thread, seconds]) => [thread, Number(seconds.toFixed(2))]))];
  });
  return Object.fromEntries(processes);
}

interface Reading {
  readonly atMs: number;
  readonly threads: Readonly<Record<string, Numbers>>;
  readonly system: Numbers;
  readonly load: Numbers;
  readonly machine: ReturnType<typeof machineCpuSeconds>;
  readonly bench: number;
}

export class Meter {
  readonly #roots: Roots;
  readonly #databaseUrl: string;
  #walBefore = Number.NaN;
  #idle: Numbers = {};
  #before: Reading | undefined;
  #sampler: NodeJS.Timeout | undefined;
  #signetPssPeak = 0;

  constructor({ roots, adminDatabaseUrl }: Measured) {
    this.#roots = roots;
    this.#databaseUrl = adminDatabaseUrl;
  }

  /** Measures the idle system, then starts. */
  async begin(): Promise<void> {
    const first = this.#read();
    await delay(IDLE_MS);
    // Before the first reading, because a connection costs CPU.
    this.#walBefore = await walBytes(this.#databaseUrl);
    this.#before = this.#read();
    const seconds = (this.#before.atMs - first.atMs) / 1_000;
    const used = Object.entries(difference(this.#before.system, first.system));
    this.#idle = Object.fromEntries(used.map(([name, value]) => [name, value / seconds]));
    this.#sampler = setInterval(() => this.#sample(), SAMPLE_MS);
  }

  /** Call when the last delivery has arrived. */
  async finish(): Promise<Usage> {
    const after = this.#read();
    clearInterval(this.#sampler);
    this.#sample();
    await delay(SETTLE_MS);
    const settled = this.#read();
    const wal = (await walBytes(this.#databaseUrl)) - this.#walBefore;
    const before = this.#before ?? after;
    const cpu = difference(after.system, before.system);
    const load = difference(after.load, before.load);
    const busy = after.machine.busy - before.machine.busy;
    return {
      cpu,
      cpuSettled: difference(settled.system, before.system),
      idle: this.#idle,
      load,
      others: Math.max(0, busy - sum(cpu) - sum(load) - (after.bench - before.bench)),
      stolen: after.machine.stolen - before.machine.stolen,
      wal,
      pss: pssMiB(this.#roots.system),
      signetPssPeak: this.#signetPssPeak,
      window: { fromMs: before.atMs, toMs: after.atMs },
      threads: busyThreads(after.threads, before.threads),
    };
  }

  #read(): Reading {
    const { user, system } = process.cpuUsage();
    return {
      atMs: monotonicMs(),
      threads: Object.fromEntries(
        Object.entries(signetOnly(this.#roots.system)).map(([name, pid]) => [name, threadSeconds(pid)]),
      ),
      system: cpuSeconds(this.#roots.system),
      load: cpuSeconds(this.#roots.load),
      machine: machineCpuSeconds(),
      bench: (user + system) / 1e6,
    };
  }

  #sample(): void {
    this.#signetPssPeak = Math.max(this.#signetPssPeak, sum(pssMiB(signetOnly(this.#roots.system))));
  }
}
