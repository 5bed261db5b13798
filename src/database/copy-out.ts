/** COPY … TO STDOUT in binary: rows without the driver's objects and without hexadecimal digits. */
import type { Connection, Submittable } from "pg";
import type { Pool } from "./pool.ts";

/** Length of the header: signature, flags, and the length of the empty extension. */
const HEADER_BYTES = 19;
const FIRST_CAPACITY = 1_048_576;

/** A query that a pool submits. The driver calls these methods as messages arrive; the pool sets `callback`. */
class CopyOut implements Submittable {
  callback: ((error: Error | null, copied?: Buffer) => void) | undefined;
  readonly #statement: string;
  #bytes = Buffer.allocUnsafeSlow(FIRST_CAPACITY);
  #length = 0;
  #failed = false;

  constructor(statement: string) {
    this.#statement = statement;
  }

  submit(connection: Connection): void {
    connection.query(this.#statement);
  }

  handleCopyData({ chunk }: { readonly chunk: Buffer }): void {
    if (this.#length + chunk.length > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(2 * (this.#length + chunk.length));
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    // The driver reuses the memory of its messages.
    this.#bytes.set(chunk, this.#length);
    this.#length += chunk.length;
  }

  handleCommandComplete(): void {}

  handleError(error: Error): void {
    this.#failed = true;
    this.callback?.(error);
  }

  handleReadyForQuery(): void {
    if (!this.#failed) {
      this.callback?.(null, this.#bytes.subarray(HEADER_BYTES, this.#length));
    }
  }
}

/**
 * Returns the rows of a query in the form of COPY BINARY, without its header. Each row starts with its number of fields
 * (16 bits). Each field has its length (32 bits, negative for NULL) and its binary value. The end is -1 (16 bits).
 *
 * @param query query without parameters
 */
export async function copyOut(pool: Pool, query: string): Promise<Buffer> {
  const copy = new CopyOut(`COPY (${query}) TO STDOUT (FORMAT binary)`);
  // The pool returns a promise here, too, although its types do not say so.
  return await (pool.query(copy) as unknown as Promise<Buffer>);
}
