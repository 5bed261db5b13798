/** Tracks the running work of a process until it accepts no more. */

/** This worker is about to end. Another worker takes the work. */
export class WorkerEndsError extends Error {
  override readonly name = "WorkerEndsError";
}

export class RunningWork<Item> {
  readonly #items = new Set<Item>();
  #ended = false;

  /** Runs the work. @throws WorkerEndsError after {@link close}, before the work starts */
  async track<T>(item: Item, work: () => Promise<T>): Promise<T> {
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

  /** Accepts no more work. @returns the items in progress */
  close(): Item[] {
    this.#ended = true;
    return [...this.#items];
  }
}
