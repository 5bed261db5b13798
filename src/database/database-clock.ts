/**
 * The clock of every process (decision 0025): PostgreSQL's time, carried on by the machine's monotonic clock. A machine
 * whose wall clock jumps stamps no instant wrongly. One whose wall clock disagrees with the database signs nothing.
 */
import { type Clock, type GuardedClock, unguardedClock } from "../domain/clock.ts";
import { SignetError } from "../domain/errors.ts";
import type { Queryable } from "./pool.ts";
import { databaseClockMs } from "./repositories/doctor.ts";

/** Further apart, nobody knows which clock is right; receivers and verifiers allow less than this. */
export const CLOCK_SKEW_MAX_MS = 30_000;
/** The first answers may come late from a database or a process that is busy. */
const FIRST_QUESTIONS = 3;
const RETRY_AFTER_SECONDS = 30;

/** The clocks of the machine; arguments so that tests can make them jump. */
export interface MachineClocks {
  /** Unix time in milliseconds. */
  readonly wall: () => number;
  /** Milliseconds since any instant; never goes back. */
  readonly monotonic: () => number;
}

const MACHINE: MachineClocks = { wall: () => Date.now(), monotonic: () => performance.now() };

/**
 * The database was read at an instant between question and answer, so its time less the monotonic clock's lies between
 * two bounds. What is known already changes no more than it must to lie there too: a slow answer moves nothing.
 */
export class DatabaseClock implements GuardedClock {
  readonly #db: Queryable;
  readonly #machine: MachineClocks;
  #offsetMs: number | undefined;

  constructor(db: Queryable, machine: MachineClocks = MACHINE) {
    this.#db = db;
    this.#machine = machine;
  }

  now(): number {
    if (this.#offsetMs === undefined) {
      throw new Error("the database's clock has not been read yet");
    }
    return Math.floor(this.#machine.monotonic() + this.#offsetMs);
  }

  get skewMs(): number {
    return this.#machine.wall() - this.#machine.monotonic() - (this.#offsetMs ?? Number.NaN);
  }

  get isRight(): boolean {
    return Math.abs(this.skewMs) <= CLOCK_SKEW_MAX_MS;
  }

  requireRight(): void {
    if (!this.isRight) {
      throw new SignetError("CLOCK_SKEWED", {
        detail: "The clock of this process is wrong, so it signs nothing.",
        headers: { "retry-after": String(RETRY_AFTER_SECONDS) },
        cause: new Error(`the machine's clock is ${Math.round(this.skewMs)} ms ahead of the database's`),
      });
    }
  }

  async measure(): Promise<void> {
    const before = this.#machine.monotonic();
    const theirs = await databaseClockMs(this.#db);
    const after = this.#machine.monotonic();
    const known = this.#offsetMs ?? theirs - (before + after) / 2;
    this.#offsetMs = Math.min(Math.max(known, theirs - after), theirs - before);
  }
}

/** The clock of a process: the one that a test gives it, or else the database's. @throws when that does not answer */
export async function openProcessClock(given: Clock | undefined, db: Queryable): Promise<GuardedClock> {
  return given === undefined ? await openDatabaseClock(db) : unguardedClock(given);
}

/** The database's clock, read. @throws when the database does not answer */
export async function openDatabaseClock(db: Queryable, machine?: MachineClocks): Promise<DatabaseClock> {
  const clock = new DatabaseClock(db, machine);
  for (let count = 0; count < FIRST_QUESTIONS; count += 1) {
    await clock.measure();
  }
  return clock;
}
