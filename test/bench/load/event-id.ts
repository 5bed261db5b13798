/** Identifies events at the sink by a mark inside the event's data, independent of the envelope. */

/** Text before the index in every body. */
const MARK = '"bench_id":"';
/** Length of a run's name, in hexadecimal digits. */
export const RUN_LENGTH = 8;
const INDEX_LENGTH = 8;

/** Returns the start of every event's data in a run. The index and the padding follow. */
export function dataHead(run: string): string {
  return `{${MARK}${run}-`;
}

/** Formats the index with a fixed width, so that all requests of a run have the same length. */
export function indexText(index: number): string {
  return String(index).padStart(INDEX_LENGTH, "0");
}

/** Returns the end of the data, padded to a total of `bytes`. */
export function dataTail(run: string, bytes: number): string {
  const rest = bytes - dataHead(run).length - INDEX_LENGTH - '","pad":""}'.length;
  return `","pad":"${"x".repeat(Math.max(0, rest))}"}`;
}

const MARK_BYTES = Buffer.from(MARK);
const ZERO = 0x30;

/**
 * Returns the index inside a body.
 *
 * @param run bytes of the run's name
 * @returns -1 for a body without a mark (a ping), -2 for an event of another run
 */
export function findIndex(buffer: Buffer, from: number, run: Buffer): number {
  const at = buffer.indexOf(MARK_BYTES, from);
  if (at < 0) {
    return -1;
  }
  const runAt = at + MARK_BYTES.length;
  if (buffer.compare(run, 0, RUN_LENGTH, runAt, runAt + RUN_LENGTH) !== 0) {
    return -2;
  }
  let index = 0;
  const digitsAt = runAt + RUN_LENGTH + 1;
  for (let position = digitsAt; position < digitsAt + INDEX_LENGTH; position += 1) {
    index = index * 10 + (buffer[position] ?? ZERO) - ZERO;
  }
  return index;
}
