/** COPY … TO STDOUT in binary: rows without the driver's objects and without hexadecimal digits. */
import type { Connection, Submittable } from "pg";
import type { Pool } from "./pool.ts";

/** Signature, flags, and the length of an extension that there is none of. */
const HEADER_BYTES = 19;
const FIRST_CAPACITY = 1_048_576;

/** What a pool submits: the driver calls these as messages arrive, and `callback` is the pool's. */
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
    // The driver uses the memory of its messages again.
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
 * The rows of a query in the form of COPY BINARY, without its header: for each the number of its fields (16 bits), for
 * each field its length (32 bits, negative for NULL) and its bytes as they are sent in binary; -1 (16 bits) at the end.
 *
 * @param query takes no parameters
 */
export async function copyOut(pool: Pool, query: string): Promise<Buffer> {
  const copy = new CopyOut(`COPY (${query}) TO STDOUT (FORMAT binary)`);
  // A pool answers with a promise here too, which its types do not say.
  return await (pool.query(copy) as unknown as Promise<Buffer>);
}
