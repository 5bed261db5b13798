/**
 * Nobody has an upstream to themselves: its connections are few, and who holds all of them, with answers that are never
 * read or bodies that never end, would keep everybody else out. So each caller has a share, and no more than that.
 */
export class Shares {
  readonly #each: number;
  readonly #held = new Map<string, number>();

  /** @param each requests that one caller may have under way */
  constructor(each: number) {
    this.#each = each;
  }

  /** Takes a place; false when the caller has its share already. */
  take(caller: string): boolean {
    const held = this.#held.get(caller) ?? 0;
    if (held >= this.#each) {
      return false;
    }
    this.#held.set(caller, held + 1);
    return true;
  }

  /** Gives one back. */
  release(caller: string): void {
    const held = this.#held.get(caller) ?? 0;
    if (held > 1) {
      this.#held.set(caller, held - 1);
    } else {
      this.#held.delete(caller);
    }
  }
}
