/**
 * Limits the concurrent requests per caller. Otherwise one caller could occupy all of a resource, with responses that
 * it never reads or bodies that never end.
 */
export class Shares {
  readonly #each: number;
  readonly #held = new Map<string, number>();

  /** @param each maximum concurrent requests per caller */
  constructor(each: number) {
    this.#each = each;
  }

  /** Takes a place. Returns false if the caller's share is used up. */
  take(caller: string): boolean {
    const held = this.#held.get(caller) ?? 0;
    if (held >= this.#each) {
      return false;
    }
    this.#held.set(caller, held + 1);
    return true;
  }

  /** Releases a place. */
  release(caller: string): void {
    const held = this.#held.get(caller) ?? 0;
    if (held > 1) {
      this.#held.set(caller, held - 1);
    } else {
      this.#held.delete(caller);
    }
  }
}
