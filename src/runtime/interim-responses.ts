/**
 * Interim responses (RFC 9110 section 15.2) before a final one, in any number, expected or not. undici, and with it
 * `fetch`, takes a `100 Continue` for a broken connection. So its sockets leave them out of what they read.
 */
import { subscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";

/** A flood of them would keep the process busy until a deadline. */
const INTERIM_MAX = 64;
const HEAD_BYTES_MAX = 16_384;
const END_OF_HEAD = "\r\n\r\n";
/** A status line of 1xx, except 101, after which the connection has another protocol. */
const INTERIM = /^HTTP\/\d\.\d 1(?!01)\d\d[ \r]/;
const SAMPLE = "HTTP/1.1 100 ";
const CR = 0x0d;
const LF = 0x0a;
const NOTHING = Buffer.alloc(0);

/** Parsers skip line breaks before a status line. */
function withoutLineBreaks(bytes: Buffer): Buffer {
  let start = 0;
  while (bytes[start] === CR || bytes[start] === LF) {
    start += 1;
  }
  return bytes.subarray(start);
}

/** Removes interim responses from the start of each response on a connection. */
export class InterimResponses {
  #expecting = true;
  #held: Buffer = NOTHING;
  #count = 0;

  /** A request is about to be sent, so a response begins next. */
  expect(): void {
    this.#expecting = true;
    this.#held = NOTHING;
    this.#count = 0;
  }

  /**
   * Returns what a parser may read of the bytes so far; null if more are needed to decide.
   *
   * @throws Error if there are more interim responses, or larger ones, than any server sends
   */
  pass(chunk: Buffer): Buffer | null {
    if (!this.#expecting) {
      return chunk;
    }
    let held = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    for (;;) {
      held = withoutLineBreaks(held);
      const start = held.toString("latin1", 0, SAMPLE.length);
      if (!INTERIM.test(start + SAMPLE.slice(start.length))) {
        this.#expecting = false;
        this.#held = NOTHING;
        return held;
      }
      const end = held.indexOf(END_OF_HEAD);
      if (end === -1) {
        break;
      }
      this.#count += 1;
      if (this.#count > INTERIM_MAX) {
        throw new Error("too many interim responses");
      }
      held = held.subarray(end + END_OF_HEAD.length);
    }
    if (held.length > HEAD_BYTES_MAX) {
      throw new Error("an interim response is too large");
    }
    this.#held = held;
    return null;
  }
}

function withoutInterim(socket: Socket): InterimResponses {
  const responses = new InterimResponses();
  const read = socket.read.bind(socket);
  socket.read = (size?: number): Buffer | null => {
    for (;;) {
      const chunk = read(size) as Buffer | null;
      if (chunk === null) {
        return null;
      }
      try {
        const passed = responses.pass(chunk);
        if (passed !== null) {
          return passed;
        }
      } catch (error) {
        socket.destroy(error as Error);
        return null;
      }
    }
  };
  return responses;
}

let accepting = false;

/** Lets every request of undici and `fetch` in this process get interim responses, from now on. */
export function acceptInterimResponses(): void {
  if (accepting) {
    return;
  }
  accepting = true;
  const known = new WeakMap<Socket, InterimResponses>();
  subscribe("undici:client:sendHeaders", (message) => {
    const { socket } = message as { readonly socket: Socket | TLSSocket };
    // HTTP/2 has frames of its own for them.
    if ("alpnProtocol" in socket && socket.alpnProtocol === "h2") {
      return;
    }
    const responses = known.get(socket) ?? withoutInterim(socket);
    known.set(socket, responses);
    responses.expect();
  });
}
