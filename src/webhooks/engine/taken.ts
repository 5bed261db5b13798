/** The work that a process has taken on, until it takes no more. */

/** This worker is about to end: the work is another one's. */
export class WorkerEndsError extends Error {
  override readonly name = "WorkerEndsError";
}

export class Taken<Item> {
  readonly #items = new Set<Item>();
  #ended = false;

  /** Does the item's work. @throws WorkerEndsError after {@link end}; nothing was begun then */
  async during<T>(item: Item, work: () => Promise<T>): Promise<T> {
    if (this.#ended) {
      throw new WorkerEndsError("this worker is about to end");
    }
    this.#items.add(item);
    try {
      return await work();
    } finally {
      this.#items.delete(item);
    }
  }

  /** Takes nothing on from now on. @returns what is under way */
  end(): Item[] {
    this.#ended = true;
    return [...this.#items];
  }
}
