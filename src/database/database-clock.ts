/**
 * The clock of every process (decision 0025): PostgreSQL's time, advanced by the machine's monotonic clock. A jump of
 * the machine's wall clock falsifies no instant. If it disagrees with the database, the process signs nothing.
 */
import { type Clock, type GuardedClock, monotonic, unguardedClock } from "../domain/clock.ts";
import { SignetError } from "../domain/errors.ts";
import type { Queryable } from "./pool.ts";

/** Larger skews leave open which clock is right. Receivers and verifiers tolerate less than this. In milliseconds. */
export const CLOCK_SKEW_MAX_MS = 30_000;
/** The first answers may be late because of a busy database or process. */
const FIRST_QUESTIONS = 3;
const RETRY_AFTER_SECONDS = 30;

/** The clocks of the machine, passed as arguments so that tests can make them jump. */
export interface MachineClocks {
  /** Unix time in milliseconds. */
  readonly wall: () => number;
  /** Monotonic clock in milliseconds, from any origin. */
  readonly monotonic: () => number;
}

const MACHINE: MachineClocks = { wall: () => Date.now(), monotonic };

/** Returns the database's time in Unix milliseconds, with a fraction. */
export async function databaseClockMs(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ now: number }>(
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now",
  );
  return rows[0]?.now ?? 0;
}

/**
 * The database read its clock between question and answer, so its offset from the monotonic clock lies between two
 * bounds. The known offset changes only as far as needed to lie between them. Thus a slow answer changes nothing.
 */
export class DatabaseClock implements GuardedClock {
  readonly #db: Queryable | undefined;
  readonly #machine: MachineClocks;
  #offsetMs: number | undefined;

  /** @param db absent if the database's clock arrives in proofs, for {@link learn} */
  constructor(db?: Queryable, machine: MachineClocks = MACHINE) {
    this.#db = db;
    this.#machine = machine;
  }

  now(): number {
    if (this.#offsetMs === undefined) {
      throw new Error("the database's clock has not been read yet");
    }
    return Math.floor(this.#machine.monotonic() + this.#offsetMs);
  }

  /** Whether the database's clock has been read. */
  get isKnown(): boolean {
    return this.#offsetMs !== undefined;
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
    if (this.#db !== undefined) {
      const before = this.#machine.monotonic();
      this.learn(await databaseClockMs(this.#db), before);
    }
  }

  /** Takes the database's time, in Unix milliseconds, read after the instant `before` of the monotonic clock. */
  learn(theirs: number, before: number): void {
    const after = this.#machine.monotonic();
    const known = this.#offsetMs ?? theirs - (before + after) / 2;
    this.#offsetMs = Math.min(Math.max(known, theirs - after), theirs - before);
  }
}

/** Returns a process's clock: the given one in tests, else the database's. @throws if the database does not answer */
export async function openProcessClock(given: Clock | undefined, db: Queryable): Promise<GuardedClock> {
  return given === undefined ? await openDatabaseClock(db) : unguardedClock(given);
}

/** Returns the database's clock after reading it. @throws if the database does not answer */
export async function openDatabaseClock(db: Queryable, machine?: MachineClocks): Promise<DatabaseClock> {
  const clock = new DatabaseClock(db, machine);
  for (let count = 0; count < FIRST_QUESTIONS; count += 1) {
    await clock.measure();
  }
  return clock;
}
