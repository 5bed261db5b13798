/**
 * Notes when the machine stands still, as a shared one does for up to seconds: the whole machine, or all processes of
 * a run. A bound in time can be missed then although nothing is wrong.
 */
import { Worker } from "node:worker_threads";
import { eventually } from "./eventually.ts";
import { monotonicMs } from "./monotonic.ts";

/** A longer time between two ticks is a pause, in milliseconds. */
export const PAUSE_MS = 200;
const MEASUREMENTS_MAX = 5;
/** Number of pauses that are kept: the last ones. */
const KEPT = 64;
/** Places in the memory: time of the last tick, number of pauses, then begin and end of each kept pause. */
const [TICKED, COUNT, FIRST] = [0, 1, 2];

/** Memory that the thread and its process share. Times are whole milliseconds of CLOCK_MONOTONIC. */
export type Notes = BigInt64Array<SharedArrayBuffer>;

/** A time in which nothing ran, in milliseconds of CLOCK_MONOTONIC. */
export interface Pause {
  readonly from: number;
  readonly to: number;
}

/** What `withoutPause` needs to know. */
export interface PauseWatch {
  readonly clock: () => number;
  /** Resolves once the thread has ticked at this time or later: it has noted every earlier pause. */
  readonly untilTicked: (at: number) => Promise<void>;
  /** Returns the kept pauses that touch this time. */
  readonly between: (from: number, to: number) => readonly Pause[];
}

/** Creates memory without notes. */
export function createNotes(): Notes {
  return new BigInt64Array(new SharedArrayBuffer(8 * (FIRST + 2 * KEPT)));
}

/** Ticks, and notes each pause between two ticks, until `wait` returns false. */
export function keepTicking(notes: Notes, clock: () => number, wait: () => boolean): void {
  let last = clock();
  do {
    const now = clock();
    if (now - last > PAUSE_MS) {
      const count = Atomics.load(notes, COUNT);
      const place = FIRST + 2 * (Number(count) % KEPT);
      Atomics.store(notes, place, BigInt(Math.floor(last)));
      Atomics.store(notes, place + 1, BigInt(Math.ceil(now)));
      Atomics.store(notes, COUNT, count + 1n);
    }
    last = now;
    Atomics.store(notes, TICKED, BigInt(Math.floor(now)));
  } while (wait());
}

/** Reads the notes of a thread that ticks. */
export function watchOf(notes: Notes, clock: () => number): PauseWatch {
  return {
    clock,
    untilTicked: async (at) => {
      await eventually(() => Number(Atomics.load(notes, TICKED)) >= at, "the watch for pauses to tick");
    },
    between: (from, to) => {
      const kept = Math.min(KEPT, Number(Atomics.load(notes, COUNT)));
      return Array.from({ length: kept }, (_, index): Pause => {
        const [begin = 0n, end = 0n] = notes.subarray(FIRST + 2 * index);
        return { from: Number(begin), to: Number(end) };
      })
        .filter((pause) => pause.from <= to && pause.to >= from)
        .toSorted((left, right) => left.from - right.from);
    },
  };
}

let started: PauseWatch | undefined;

/** Returns the watch of this process. Starts its thread at first, which does not keep the process running. */
function theWatch(): PauseWatch {
  if (started === undefined) {
    const notes = createNotes();
    const thread = new Worker(new URL("pauses-thread.ts", import.meta.url), { workerData: notes });
    thread.unref();
    started = watchOf(notes, monotonicMs);
  }
  return started;
}

/**
 * Measures, and checks bounds in time while the machine runs. `measure` makes its own set-up and throws if a bound does
 * not hold. If the machine stood still meanwhile, it runs again, at most five times in all. A bound that holds in spite
 * of a pause holds.
 *
 * @throws what `measure` throws, if the machine did not stand still meanwhile
 * @throws Error with the lengths of the pauses, if it did each time; the cause is the last error
 */
export async function withoutPause<T>(measure: () => Promise<T>, watch = theWatch()): Promise<T> {
  const lengths: string[] = [];
  for (;;) {
    await watch.untilTicked(watch.clock());
    const from = watch.clock();
    try {
      return await measure();
    } catch (error) {
      const to = watch.clock();
      await watch.untilTicked(to);
      const pauses = watch.between(from, to);
      if (pauses.length === 0) {
        throw error;
      }
      lengths.push(pauses.map((pause) => `${pause.to - pause.from} ms`).join(" and "));
      if (lengths.length === MEASUREMENTS_MAX) {
        const message = `the machine stood still during each measurement: ${lengths.join("; ")}`;
        throw new Error(message, { cause: error });
      }
    }
  }
}
