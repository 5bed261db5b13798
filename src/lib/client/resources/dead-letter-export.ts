/** All dead letters in one streamed answer. */
import type { DeadLetter } from "../api-types.ts";
import { SignetTransportError } from "../errors.ts";
import { readLines } from "../lines.ts";
import { splitFilter, type ListFilter } from "../paging.ts";
import type { OpenAnswer, Transport } from "../transport.ts";

const PATH = "/v1/webhooks/dlq/export";
const MEDIA_TYPE = "application/x-ndjson";

/** If a lost connection looked like the answer's end, the export could be short unnoticed. */
function checkFraming({ headers }: OpenAnswer): void {
  if (!headers.has("transfer-encoding") && !headers.has("content-length")) {
    throw new SignetTransportError(
      "INVALID_ANSWER",
      "the answer does not say where it ends: something between has changed it",
    );
  }
}

function brokenOff(count: number, cause: unknown): SignetTransportError {
  const reason = cause instanceof Error ? `: ${cause.message}` : "";
  const code = cause instanceof SignetTransportError ? cause.code : "CONNECTION";
  return new SignetTransportError(
    code,
    `the export has broken off after ${count} dead letters${reason}`,
    cause,
  );
}

/**
 * `for await (const letter of export)` reads the whole answer, newest first; each loop sends a new request.
 * It buffers at most one dead letter and a chunk of the answer. An interrupted export rejects: it
 * never ends early as if it were complete.
 */
export class DeadLetterExport implements AsyncIterable<DeadLetter> {
  readonly #transport: Transport;
  readonly #filter: ListFilter;

  constructor(transport: Transport, filter: ListFilter) {
    this.#transport = transport;
    this.#filter = filter;
  }

  /**
   * The same as unchanged JSON texts: numbers beyond 2^53 and the order of members stay as published.
   *
   * @throws SignetApiError RATE_LIMITED while two others of the tenant are in progress, SignetTransportError when it
   * breaks off, the signal's reason
   */
  async *lines(): AsyncGenerator<string, void, void> {
    const { query, signal } = splitFilter(this.#filter);
    const answer = await this.#transport.open(
      { method: "GET", path: PATH, query, signal },
      { mediaType: MEDIA_TYPE },
    );
    let count = 0;
    try {
      checkFraming(answer);
      const lines = readLines(answer.chunks);
      let read = await lines.next();
      for (; read.done !== true; read = await lines.next()) {
        count += 1;
        yield read.value;
      }
      if (read.value !== "") {
        throw new SignetTransportError("INVALID_ANSWER", "its last line has no end");
      }
    } catch (error) {
      signal?.throwIfAborted();
      throw brokenOff(count, error);
    } finally {
      await answer.close();
    }
  }

  /** @throws what {@link lines} throws */
  async *[Symbol.asyncIterator](): AsyncGenerator<DeadLetter, void, void> {
    for await (const line of this.lines()) {
      yield this.#parse(line);
    }
  }

  #parse(line: string): DeadLetter {
    try {
      return this.#transport.parse(line) as DeadLetter;
    } catch {
      throw new SignetTransportError("INVALID_ANSWER", "a line of the export is not JSON");
    }
  }
}
