/** State of one check of an event's `data` with a schema. */
import type { FieldProblem } from "#domain/errors.ts";

/**
 * Maximum steps per evaluation. A step is a visit of one subschema to one value, a member of a list, or 64
 * characters.
 */
const STEPS_MAX = 250_000;
/** Maximum characters of a pointer or detail of a problem, as both can repeat content of the event. */
const PROBLEM_TEXT_MAX = 256;
const PROBLEMS_MAX = 20;

/** Thrown when an evaluation has used all its steps. */
export class TooManySteps extends Error {}

function clipped(text: string): string {
  return text.length <= PROBLEM_TEXT_MAX ? text : `${text.slice(0, PROBLEM_TEXT_MAX - 1)}…`;
}

/** Whether a value passes. `seen` is given if a schema around needs to know what was evaluated. */
export type Check = (value: unknown, run: Run, seen: Seen | undefined) => boolean;

/** The members and items of one value that its schemas have evaluated (JSON Schema Core, section 11). */
export class Seen {
  allMembers = false;
  allItems = false;
  /** Number of evaluated items at the start. */
  firstItems = 0;
  readonly members = new Set<string>();
  readonly items = new Set<number>();

  /** Adds what another schema has evaluated of the same value. */
  add(other: Seen, run: Run): void {
    run.spend(other.members.size + other.items.size);
    this.allMembers ||= other.allMembers;
    this.allItems ||= other.allItems;
    this.firstItems = Math.max(this.firstItems, other.firstItems);
    for (const name of other.members) {
      this.members.add(name);
    }
    for (const index of other.items) {
      this.items.add(index);
    }
  }

  hasMember(name: string): boolean {
    return this.allMembers || this.members.has(name);
  }

  hasItem(index: number): boolean {
    return this.allItems || index < this.firstItems || this.items.has(index);
  }
}

/** The steps, place and problems of one evaluation. */
export class Run {
  #left = STEPS_MAX;
  #problems: FieldProblem[] = [];
  /** Depth of checks whose problems nobody reads, such as those of `not`. */
  #silent = 0;
  /** Names and indexes from `data` to the current value. */
  readonly #path: (string | number)[] = [];

  /** The problems found, with pointers that begin with `/data`. */
  get problems(): readonly FieldProblem[] {
    return this.#problems;
  }

  /** Whether the first problem decides, because none is reported. */
  get isSilent(): boolean {
    return this.#silent > 0;
  }

  /** @throws TooManySteps */
  readonly spend = (steps: number): void => {
    this.#left -= steps;
    if (this.#left < 0) {
      throw new TooManySteps();
    }
  };

  /** Whether all parts pass. Checks them all if their problems are reported. */
  every<Part>(parts: Iterable<Part>, check: (part: Part) => boolean): boolean {
    let passes = true;
    for (const part of parts) {
      if (!check(part)) {
        if (this.isSilent) {
          return false;
        }
        passes = false;
      }
    }
    return passes;
  }

  /** Returns the result of a check of a member or an item. */
  at(place: string | number, value: unknown, check: Check): boolean {
    this.#path.push(place);
    const passes = check(value, this, undefined);
    this.#path.pop();
    return passes;
  }

  /** Returns the result of a check whose problems are not reported. */
  silently(check: () => boolean): boolean {
    this.#silent += 1;
    const passes = check();
    this.#silent -= 1;
    return passes;
  }

  /** Returns the result of a check of alternatives. The problems of those that fail count only if it fails. */
  alternatives(check: () => boolean): boolean {
    const { length } = this.#problems;
    const passes = check();
    if (passes) {
      this.#problems.length = length;
    }
    return passes;
  }

  /** Reports a problem of the current value, or of its member or item. Returns false. */
  fail(code: string, detail: string, place?: string | number): false {
    if (!this.isSilent && this.#problems.length < PROBLEMS_MAX) {
      const path = place === undefined ? this.#path : [...this.#path, place];
      const pointer = ["", "data", ...path]
        .map((name) => String(name).replaceAll("~", "~0").replaceAll("/", "~1"))
        .join("/");
      this.#problems.push({ pointer: clipped(pointer), code, detail: clipped(detail) });
    }
    return false;
  }

  /** Replaces all problems: the evaluation was given up. */
  giveUp(): void {
    this.#problems = [
      { pointer: "/data", code: "too_complex", detail: "takes too many steps to check against its schema" },
    ];
  }
}
