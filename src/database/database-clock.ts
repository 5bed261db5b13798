/**
 * The clock of every process (decision 25): PostgreSQL's time, advanced by the machine's monotonic clock. A jump of
 * the machine's wall clock falsifies no instant. If it disagrees with the database, the process signs nothing. In a cell,
 * PostgreSQL must also agree with that of the home cell, whose time decides on tokens (decision 39).
 */
import { type Clock, type GuardedClock, type MachineClocks, unguardedClock } from "#domain/clock.ts";
import { SignetError } from "#domain/errors.ts";
import type { Queryable } from "./pool.ts";

/** Larger skews leave open which clock is right. Receivers and verifiers tolerate less than this. In milliseconds. */
export const CLOCK_SKEW_MAX_MS = 30_000;
/** The first answers may be late because of a busy database or process. */
const FIRST_QUESTIONS = 3;
const RETRY_AFTER_SECONDS = 30;

/** Returns the database's time in Unix milliseconds, with a fraction. */
export async function databaseClockMs(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ now: number }>(
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now",
  );
  return rows[0]?.now ?? 0;
}

function skewed(detail: string, cause: string): SignetError {
  return new SignetError("CLOCK_SKEWED", {
    detail,
    headers: { "retry-after": String(RETRY_AFTER_SECONDS) },
    cause: new Error(cause),
  });
}

/**
 * The database read its clock between question and answer, so its offset from the monotonic clock lies between two
 * bounds. The known offset changes only as far as needed to lie between them. Thus a slow answer changes nothing.
 * Answers that come out of order count only if they were requested later than the last: the monotonic clock may have
 * stood still between, while the machine was suspended.
 */
export class DatabaseClock implements GuardedClock {
  readonly #db: Queryable | undefined;
  readonly #machine: MachineClocks;
  #offsetMs: number | undefined;
  #askedAt = Number.NEGATIVE_INFINITY;

  /** @param db absent if the database's clock arrives in proofs, for {@link learn} */
  constructor(machine: MachineClocks, db?: Queryable) {
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
      throw skewed(
        "The clock of this process is wrong, so it signs nothing.",
        `the machine's clock is ${Math.round(this.skewMs)} ms ahead of the database's`,
      );
    }
  }

  async measure(): Promise<void> {
    if (this.#db !== undefined) {
      const before = this.#machine.monotonic();
      this.learn(await databaseClockMs(this.#db), before);
    }
  }

  learn(theirs: number, askedAt: number): boolean {
    if (askedAt < this.#askedAt) {
      return false;
    }
    this.#askedAt = askedAt;
    const answeredAt = this.#machine.monotonic();
    const known = this.#offsetMs ?? theirs - (askedAt + answeredAt) / 2;
    this.#offsetMs = Math.min(Math.max(known, theirs - answeredAt), theirs - askedAt);
    return true;
  }
}

/**
 * The clock of a process in a cell: its own database's, compared with the home cell's (decision 39). What the cell
 * stores is stamped by its own clock. It is right while both agree.
 */
export class CellClock implements GuardedClock {
  /** The home cell's clock, by which tokens are checked. */
  readonly home: GuardedClock;
  readonly #own: GuardedClock;

  constructor(own: GuardedClock, home: GuardedClock) {
    this.#own = own;
    this.home = home;
  }

  now(): number {
    return this.#own.now();
  }

  get isKnown(): boolean {
    return this.#own.isKnown;
  }

  get skewMs(): number {
    return this.#own.skewMs;
  }

  /** How far this cell's clock is ahead of the home cell's, in milliseconds; 0 while that is unknown. */
  get homeSkewMs(): number {
    return this.home.isKnown ? this.#own.now() - this.home.now() : 0;
  }

  get isRight(): boolean {
    return this.#own.isRight && Math.abs(this.homeSkewMs) <= CLOCK_SKEW_MAX_MS;
  }

  requireRight(): void {
    this.#own.requireRight();
    if (!this.isRight) {
      throw skewed(
        "The clock of this cell differs from that of the home cell, so it signs nothing.",
        `the clock of this cell's database is ${Math.round(this.homeSkewMs)} ms ahead of the home cell's`,
      );
    }
  }

  learn(theirs: number, askedAt: number): boolean {
    return this.#own.learn(theirs, askedAt);
  }

  async measure(): Promise<void> {
    await this.#own.measure();
  }
}

/** Returns a process's clock: the given one in tests, else the database's. @throws if the database does not answer */
export async function openProcessClock(
  given: Clock | undefined,
  db: Queryable,
  machine: MachineClocks,
): Promise<GuardedClock> {
  return given === undefined ? await openDatabaseClock(db, machine) : unguardedClock(given);
}

/** Returns the database's clock after reading it. @throws if the database does not answer */
export async function openDatabaseClock(db: Queryable, machine: MachineClocks): Promise<DatabaseClock> {
  const clock = new DatabaseClock(machine, db);
  for (let count = 0; count < FIRST_QUESTIONS; count += 1) {
    await clock.measure();
  }
  return clock;
}
