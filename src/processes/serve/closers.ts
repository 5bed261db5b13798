/** Ends `npm start` within 10 seconds, also under load. */
import { NoAnswerError, within } from "#runtime/within.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

type Closer = () => Promise<void>;

/** Time to finish work in progress. Stopping the embedded servers takes at most 4 s more, and a moment after a kill. */
const GRACE_MS = 4_500;

/** Things to close. Work in progress ends first, in the opposite order of its start; then all servers at once. */
export class Closers {
  readonly #work: Closer[] = [];
  readonly #servers: Closer[] = [];
  readonly #last: Closer[] = [];

  /** Adds a part that is abandoned after the grace period. */
  addWork(close: Closer): void {
    this.#work.push(close);
  }

  /** Adds a server that the parts use. It may still be starting. */
  addServer(close: Closer): void {
    this.#servers.push(close);
  }

  /** Adds what is closed after all servers. */
  addLast(close: Closer): void {
    this.#last.push(close);
  }

  /**
   * Closes everything.
   *
   * @returns whether all work finished in time
   * @throws the first failure, after closing everything
   */
  async close(): Promise<boolean> {
    const deadline = performance.now() + GRACE_MS;
    const failures: unknown[] = [];
    const note = (error: unknown): void => void failures.push(error);
    for (let close = this.#work.pop(); close !== undefined; close = this.#work.pop()) {
      await within(machineTimers, Math.max(1, deadline - performance.now()), close()).catch(note);
    }
    await Promise.all(this.#servers.splice(0).map(async (close) => await close().catch(note)));
    for (const close of this.#last.splice(0)) {
      await close().catch(note);
    }
    const unexpected = failures.filter((error) => !(error instanceof NoAnswerError));
    if (unexpected.length > 0) {
      throw unexpected[0];
    }
    return failures.length === 0;
  }
}
