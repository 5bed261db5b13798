/** How the sink finds an event again: a mark inside the event's data, whatever envelope is around it. */

/** What stands before the mark in any body. */
const MARK = '"bench_id":"';
/** Length of a run's name: hexadecimal digits. */
export const RUN_LENGTH = 8;
const INDEX_LENGTH = 8;

/** Beginning of the data of every event of a run; the index and the padding follow. */
export function dataHead(run: string): string {
  return `{${MARK}${run}-`;
}

/** The index in fixed width, so that every request of a run has the same length. */
export function indexText(index: number): string {
  return String(index).padStart(INDEX_LENGTH, "0");
}

/** End of the data that makes it exactly so many bytes long. */
export function dataTail(run: string, bytes: number): string {
  const rest = bytes - dataHead(run).length - INDEX_LENGTH - '","pad":""}'.length;
  return `","pad":"${"x".repeat(Math.max(0, rest))}"}`;
}

const MARK_BYTES = Buffer.from(MARK);
const ZERO = 0x30;

/**
 * The index inside a body.
 *
 * @param run bytes of the run's name
 * @returns -1 for a body without mark (a ping), -2 for an event of another run
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
