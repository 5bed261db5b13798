/** Lines of an answer that is read while it comes. */
import { SignetTransportError } from "./errors.ts";

/** Beyond any line of the service's: an event of 256 KiB with what stands around it. */
export const MAX_LINE_LENGTH = 4_194_304;

/**
 * The lines, without their ends. Keeps no more than one of them and the piece that has just come.
 *
 * @returns what stands behind the last line's end: empty unless the answer is cut off
 * @throws SignetTransportError INVALID_ANSWER for a line beyond {@link MAX_LINE_LENGTH}
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
