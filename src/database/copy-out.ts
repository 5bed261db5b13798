/** COPY … TO STDOUT in binary: rows without the driver's objects and without hexadecimal digits. */
import { Query } from "pg";
import type { Pool } from "./pool.ts";

/** Length of the header: signature, flags, and the length of the empty extension. */
const HEADER_BYTES = 19;
const FIRST_CAPACITY = 1_048_576;

/** Collects what the driver's own query ignores. */
class CopyOut extends Query {
  #bytes = Buffer.allocUnsafeSlow(FIRST_CAPACITY);
  #length = 0;

  get bytes(): Buffer {
    return this.#bytes.subarray(HEADER_BYTES, this.#length);
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
}

/**
 * Returns the rows of a query in the form of COPY BINARY, without its header. Each row starts with its number of fields
 * (16 bits). Each field has its length (32 bits, negative for NULL) and its binary value. The end is -1 (16 bits).
 *
 * @param query query without parameters
 */
export async function copyOut(pool: Pool, query: string): Promise<Buffer> {
  const copy = new CopyOut(`COPY (${query}) TO STDOUT (FORMAT binary)`);
  // The types see a query that is only submitted. The pool returns a promise, because it has a callback.
  // oxlint-disable-next-line typescript/await-thenable
  await pool.query(copy);
  return copy.bytes;
}
