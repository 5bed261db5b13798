/** Whether a process is of use: what it depends on, asked one by one with a limit on the time each may take. */
import { within } from "./within.ts";

/** One thing that must work before the process is of use. */
export interface ReadinessCheck {
  readonly name: string;
  /** Rejects when it does not work; the reason goes to the log, not to the caller. */
  readonly check: () => Promise<unknown>;
  /** What an operator should see even when it works; stands under the check's name beside the status. */
  readonly note?: Readonly<Record<string, unknown>>;
}

/** A check that did not pass, and why. */
export interface FailedCheck {
  readonly name: string;
  readonly error: unknown;
}

const CHECK_TIMEOUT_MS = 2_000;

/** Checks under way: however many ask at once, on whichever listener, each is made once. */
const underWay = new WeakMap<ReadinessCheck, Promise<FailedCheck | undefined>>();

async function make({ name, check }: ReadinessCheck): Promise<FailedCheck | undefined> {
  try {
    await within(CHECK_TIMEOUT_MS, check());
    return undefined;
  } catch (error) {
    return { name, error };
  }
}

async function failureOf(check: ReadinessCheck): Promise<FailedCheck | undefined> {
  let made = underWay.get(check);
  if (made === undefined) {
    made = make(check).finally(() => underWay.delete(check));
    underWay.set(check, made);
  }
  return await made;
}

/** What stands beside the status: the notes, by the names of their checks. */
export function readinessNotes(checks: readonly ReadinessCheck[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(checks.flatMap(({ name, note }) => (note === undefined ? [] : [[name, note]])));
}

/** The checks that do not pass now, in their order; none means ready. */
export async function failedChecks(checks: readonly ReadinessCheck[]): Promise<readonly FailedCheck[]> {
  const failures = await Promise.all(checks.map(failureOf));
  return failures.filter((failure) => failure !== undefined);
}
