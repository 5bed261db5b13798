/** Lines of a streamed answer. */
import { SignetTransportError } from "./errors.ts";

/** Above any line of the service: an event of 256 KiB with its envelope. */
export const MAX_LINE_LENGTH = 4_194_304;

/**
 * Yields the lines without their ends. Buffers at most one line and the newest chunk.
 *
 * @returns the text after the last line's end: empty unless the answer is cut off
 * @throws SignetTransportError INVALID_ANSWER for a line longer than {@link MAX_LINE_LENGTH}
 */
export async function* readLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string, string, void> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of chunks) {
    const [first = "", ...others] = decoder.decode(chunk, { stream: true }).split("\n");
    let line = rest + first;
    for (const next of others) {
      yield line.endsWith("\r") ? line.slice(0, -1) : line;
      line = next;
    }
    rest = line;
    if (rest.length > MAX_LINE_LENGTH) {
      throw new SignetTransportError("INVALID_ANSWER", `a line is longer than ${MAX_LINE_LENGTH} characters`);
    }
  }
  return rest + decoder.decode();
}
