/**
 * Limits pipelined requests (RFC 9112 section 9.3.2). Node parses every request of a chunk, up to 3,600 in 64 KiB, and
 * starts each at once; the answers queue up. This limits the started requests per connection. While there is room,
 * the parser receives one request at a time. While there is none, the socket is not read.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { Server as HttpsServer } from "node:https";
import type { Socket } from "node:net";

/** Maximum number of unanswered requests per connection. */
export const UNANSWERED_MAX = 16;
/**
 * Pause between two pipelined requests of all connections together. No common client pipelines. Pipelined requests
 * must not take the event loop's time from ordinary requests.
 */
const PACE_MS = 4;
/** Pieces of one body that are parsed per turn of the event loop. */
const PIECES_PER_TURN = 16;

/** The end of every head. A body may contain it too, which only makes the pieces smaller. */
const HEAD_END = Buffer.from("\n\r\n");
const CR = 0x0d;
const LF = 0x0a;

/**
 * Returns the length of the prefix with at most one end of a request head; all of `bytes` if no second head ends there.
 *
 * @param bytes may start in the middle of a head
 */
function lengthOfOne(bytes: Buffer): number {
  const first =
    bytes[0] === CR || bytes[0] === LF
      ? Math.max(0, bytes.subarray(0, HEAD_END.length).indexOf(LF))
      : bytes.indexOf(HEAD_END);
  const end = first + HEAD_END.length;
  return first === -1 || end >= bytes.length || bytes.indexOf(HEAD_END, first + 1) === -1
    ? bytes.length
    : end;
}

/** Whether at most one request head ends in `bytes`. */
function isAlone(bytes: Buffer): boolean {
  return lengthOfOne(bytes) === bytes.length;
}

/** Whether the framing is invalid (RFC 9112 section 6.1), so that the connection closes after this answer. */
function endsConnection({ httpVersion, headers }: IncomingMessage): boolean {
  return httpVersion === "1.0" && headers["transfer-encoding"] !== undefined;
}

/** Properties that Node's server keeps on a socket but its types omit. */
interface ServedSocket extends Socket {
  /** Absent when the connection no longer carries HTTP. */
  readonly parser?: object | null;
  /** True while Node waits for answers to drain. Its parser must receive nothing then. */
  readonly _paused?: boolean;
}

/**
 * Connections with a waiting pipelined request, in order. Together they start one request every {@link PACE_MS}.
 * However many clients pipeline, most of the event loop is left to ordinary requests.
 */
class Queue {
  readonly #waiting = new Set<Connection>();
  #pausing = false;

  add(connection: Connection): void {
    this.#waiting.add(connection);
    if (!this.#pausing) {
      this.#pausing = true;
      setImmediate(() => this.#next());
    }
  }

  #next(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#pausing = false;
      return;
    }
    this.#waiting.delete(next);
    next.pump();
    setTimeout(() => this.#next(), PACE_MS);
  }
}

const queue = new Queue();

/** One connection: its unanswered requests, and the bytes that were read but not parsed. */
class Connection {
  readonly #socket: ServedSocket;
  readonly #parse: (bytes: Buffer) => void;
  /** An array, because a set that is used for long costs full garbage collections. */
  #unanswered: ServerResponse[] = [];
  /** Never more than one chunk, because the socket is paused while any bytes are held. */
  #held: Buffer | undefined;
  /** The request that began last. Its body goes straight to the parser. */
  #latest: IncomingMessage | undefined;
  /** Set once nothing but this request's own body may follow. */
  #last: IncomingMessage | undefined;
  #stopped = false;

  constructor(socket: Socket, parse: (bytes: Buffer) => void) {
    this.#socket = socket;
    this.#parse = parse;
  }

  read(bytes: Buffer): void {
    if (!this.#socket.writable && this.#socket.parser) {
      // Bytes after the last answer are an error, which Node's parser reports.
      this.#parse(bytes);
      return;
    }
    this.#held = this.#held === undefined ? bytes : Buffer.concat([this.#held, bytes]);
    if (this.#latest?.complete === false || (this.#unanswered.length === 0 && isAlone(this.#held))) {
      this.pump();
    } else {
      this.pumpInTurn();
      this.#pause(true);
    }
  }

  begin(request: IncomingMessage, answer: ServerResponse): void {
    this.#unanswered.push(answer);
    this.#latest = request;
    if (endsConnection(request)) {
      this.#last = request;
      answer.shouldKeepAlive = false;
    }
    answer.once("close", () => {
      this.#unanswered = this.#unanswered.filter((other) => other !== answer);
      this.pumpInTurn();
    });
  }

  /** Parses up to the start of the next request while there is room. Resumes the socket when nothing is held. */
  pump(): void {
    const latest = this.#latest;
    for (let piece = 0; piece < PIECES_PER_TURN && this.#latest === latest && this.#mayParse(); piece += 1) {
      this.#parseOne();
    }
    if (this.#mayParse()) {
      if (this.#latest === latest) {
        // The body of a started request does not wait for a turn.
        setImmediate(() => this.pump());
      } else {
        this.pumpInTurn();
      }
    }
    if (!this.#socket.writable) {
      // Nothing more is answered. The socket must be read to its end, or it would never close.
      this.#held = undefined;
    }
    this.#pause(this.#held !== undefined);
  }

  #parseOne(): void {
    const bytes = this.#held as Buffer;
    const length = lengthOfOne(bytes);
    this.#held = length === bytes.length ? undefined : bytes.subarray(length);
    this.#parse(length === bytes.length ? bytes : bytes.subarray(0, length));
  }

  /** Parses one more request when this connection's turn comes. */
  pumpInTurn(): void {
    if (this.#held !== undefined) {
      queue.add(this);
    }
  }

  #pause(stop: boolean): void {
    if (stop) {
      this.#stopped = true;
      this.#socket.pause();
    } else if (this.#stopped) {
      const { _paused: draining } = this.#socket;
      this.#stopped = false;
      if (draining !== true) {
        this.#socket.resume();
      }
    }
  }

  #mayParse(): boolean {
    const { parser, _paused: draining, writable } = this.#socket;
    const room = this.#last === undefined ? this.#unanswered.length < UNANSWERED_MAX : !this.#last.complete;
    return this.#held !== undefined && Boolean(parser) && draining !== true && writable && room;
  }

  /**
   * Ends all answers when the connection has closed. Node notifies only the first answer. The others would hold their
   * resources, such as an upstream's connection or a stream of events, for ever.
   */
  end(): void {
    this.#held = undefined;
    for (const answer of this.#unanswered) {
      if (answer.socket === null && !answer.destroyed) {
        answer.destroy();
        answer.emit("close");
      }
    }
  }
}

/**
 * Limits the unanswered requests of each connection to {@link UNANSWERED_MAX}. Ends every waiting answer with its
 * connection. Closes a connection with invalid framing after the answer. Call it before the server listens.
 */
export function limitPipelining(server: Server | HttpsServer): void {
  const connections = new WeakMap<Socket, Connection>();
  server.on(server instanceof HttpsServer ? "secureConnection" : "connection", (socket: Socket) => {
    // Node's own listener feeds the parser. Adding a data listener makes Node emit the bytes at all.
    const [feed] = socket.listeners("data") as ((bytes: Buffer) => void)[];
    if (feed === undefined) {
      throw new Error("this version of Node feeds its HTTP parser differently");
    }
    const connection = new Connection(socket, feed);
    connections.set(socket, connection);
    socket.removeListener("data", feed);
    socket.on("data", (bytes: Buffer) => connection.read(bytes));
    socket.on("resume", () => connection.pumpInTurn());
    socket.once("close", () => connection.end());
  });
  server.prependListener("request", (request, answer) => {
    connections.get(request.socket)?.begin(request, answer);
  });
}
