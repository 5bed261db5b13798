/** Server-sent events (WHATWG HTML 9.2), as far as the service sends them. */
import { SignetTransportError } from "./errors.ts";
import { MAX_LINE_LENGTH, readLines } from "./lines.ts";

export interface ServerSentEvent {
  /** `message` by default; undefined if only an id came. */
  readonly event: string | undefined;
  readonly data: string;
  /** The last `id`. */
  readonly id: string | undefined;
  /** Pause before reconnecting, in milliseconds, if the service has just set it. */
  readonly retryMs: number | undefined;
}

/** Returns a field's value, without one blank after the colon. */
function fieldOf(line: string): readonly [string, string] {
  const colon = line.indexOf(":");
  return colon < 0 ? [line, ""] : [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, "")];
}

/** Collects the lines of a block. */
class Block {
  event: string | undefined;
  id: string | undefined;
  retryMs: number | undefined;
  #data: string[] = [];
  #length = 0;

  /** @throws SignetTransportError INVALID_ANSWER for a block that is too long */
  add(line: string): void {
    const [name, value] = fieldOf(line);
    if (name === "event") {
      this.event = value;
    } else if (name === "data") {
      this.#length += value.length;
      this.#data.push(value);
    } else if (name === "id" && !value.includes("\0")) {
      this.id = value;
    } else if (name === "retry" && /^\d{1,9}$/.test(value)) {
      this.retryMs = Number(value);
    }
    if (this.#length > MAX_LINE_LENGTH || this.#data.length > 1_000) {
      throw new SignetTransportError("INVALID_ANSWER", "a server-sent event is too long");
    }
  }

  /** Returns the event at the block's end. */
  take(): ServerSentEvent {
    const { id, retryMs } = this;
    const event = this.#data.length === 0 ? undefined : (this.event ?? "message");
    const taken = { event, data: this.#data.join("\n"), id, retryMs };
    this.#data = [];
    this.#length = 0;
    this.event = undefined;
    this.retryMs = undefined;
    return taken;
  }
}

/** Yields the events, and blocks with only an id or a pause. Drops an incomplete block. */
export async function* readServerSentEvents(
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<ServerSentEvent, void, void> {
  const block = new Block();
  for await (const line of readLines(chunks)) {
    if (line === "") {
      yield block.take();
    } else {
      block.add(line);
    }
  }
}
