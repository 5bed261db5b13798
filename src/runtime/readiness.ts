/** Readiness of a process: checks of its dependencies, each with a timeout. */
import { machineTimers } from "./machine-timers.ts";
import { within } from "./within.ts";

/** A dependency without which the process is not ready. */
export interface ReadinessCheck {
  readonly name: string;
  /** Rejects if the dependency does not work. The reason is logged, not returned to the caller. */
  readonly check: () => Promise<unknown>;
  /** Details for operators, shown beside the status under the check's name even if the check passes. */
  readonly note?: Readonly<Record<string, unknown>> | undefined;
}

/** A failed check and its error. */
export interface FailedCheck {
  readonly name: string;
  readonly error: unknown;
}

const CHECK_TIMEOUT_MS = 2_000;

/** Checks under way. Concurrent callers, on any listener, share one run. */
const underWay = new WeakMap<ReadinessCheck, Promise<FailedCheck | undefined>>();

async function make({ name, check }: ReadinessCheck): Promise<FailedCheck | undefined> {
  try {
    await within(machineTimers, CHECK_TIMEOUT_MS, check());
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

/** Returns the notes by the names of their checks, for display beside the status. */
export function readinessNotes(checks: readonly ReadinessCheck[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(checks.flatMap(({ name, note }) => (note === undefined ? [] : [[name, note]])));
}

/** Runs the checks and returns the failed ones in their order; empty means ready. */
export async function failedChecks(checks: readonly ReadinessCheck[]): Promise<readonly FailedCheck[]> {
  const failures = await Promise.all(checks.map(failureOf));
  return failures.filter((failure) => failure !== undefined);
}

/** Adds checks to those of a process, but for what another of its parts depends on as well: that is checked once. */
export function addChecks(known: ReadinessCheck[], checks: readonly ReadinessCheck[]): void {
  for (const check of checks) {
    if (known.every(({ name }) => name !== check.name)) {
      known.push(check);
    }
  }
}
