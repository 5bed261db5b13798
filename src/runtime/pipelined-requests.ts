/**
 * Pipelined requests (RFC 9112 section 9.3.2). Node parses every request of a chunk, up to 3,600 in 64 KiB, and begins
 * each at once; the answers wait in a row. This bounds what one connection has begun: bytes reach the parser one
 * request at a time while there is room, and the socket is not read while there is none.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { Server as HttpsServer } from "node:https";
import type { Socket } from "node:net";

/** Unanswered requests of one connection. */
export const UNANSWERED_MAX = 16;
/**
 * Between two pipelined requests of all connections. No common client pipelines; what one of them begins with is the
 * event loop's time, which requests that come alone need.
 */
const PACE_MS = 4;
/** Pieces of one body parsed in a turn of the event loop. */
const PIECES_PER_TURN = 16;

/** Every head ends with these bytes; a body may hold them too, which only makes pieces smaller. */
const HEAD_END = Buffer.from("\n\r\n");
const CR = 0x0d;
const LF = 0x0a;

/**
 * How much of `bytes` holds the end of at most one request head: all of it, unless another one ends behind the first.
 *
 * @param bytes the start may complete a head that began earlier
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

/** Whether no request ends behind the first one. */
function isAlone(bytes: Buffer): boolean {
  return lengthOfOne(bytes) === bytes.length;
}

/** Whether the framing counts as faulty (RFC 9112 section 6.1): the connection ends with this request's answer. */
function endsConnection({ httpVersion, headers }: IncomingMessage): boolean {
  return httpVersion === "1.0" && headers["transfer-encoding"] !== undefined;
}

/** What Node's server keeps on a socket and its types do not know. */
interface ServedSocket extends Socket {
  /** Absent once the connection carries HTTP no longer. */
  readonly parser?: object | null;
  /** Node reads no further until answers have drained; its parser may get nothing meanwhile. */
  readonly _paused?: boolean;
}

/**
 * Connections with a request behind another one, in order. Of all of them together one request begins every
 * {@link PACE_MS}: however many clients pipeline, most of the event loop is left to requests that come alone.
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

/** One connection: the answers it waits for, and the bytes that were read and not parsed. */
class Connection {
  readonly #socket: ServedSocket;
  readonly #parse: (bytes: Buffer) => void;
  readonly #unanswered = new Set<ServerResponse>();
  /** The socket is paused as long as there are any, so they are one chunk at most. */
  #held: Buffer | undefined;
  /** Its body goes straight to the parser. */
  #latest: IncomingMessage | undefined;
  /** Set once nothing may follow this request but its own body. */
  #last: IncomingMessage | undefined;
  #stopped = false;

  constructor(socket: Socket, parse: (bytes: Buffer) => void) {
    this.#socket = socket;
    this.#parse = parse;
  }

  read(bytes: Buffer): void {
    if (!this.#socket.writable && this.#socket.parser) {
      // What follows the last answer is an error, as Node's parser says.
      this.#parse(bytes);
      return;
    }
    this.#held = this.#held === undefined ? bytes : Buffer.concat([this.#held, bytes]);
    if (this.#latest?.complete === false || (this.#unanswered.size === 0 && isAlone(this.#held))) {
      this.pump();
    } else {
      this.pumpInTurn();
      this.#pause(true);
    }
  }

  begin(request: IncomingMessage, answer: ServerResponse): void {
    this.#unanswered.add(answer);
    this.#latest = request;
    if (endsConnection(request)) {
      this.#last = request;
      answer.shouldKeepAlive = false;
    }
    answer.once("close", () => {
      this.#unanswered.delete(answer);
      this.pumpInTurn();
    });
  }

  /** Parses up to the next request that begins, as far as there is room, and reads on when nothing is left. */
  pump(): void {
    const latest = this.#latest;
    for (let piece = 0; piece < PIECES_PER_TURN && this.#latest === latest && this.#mayParse(); piece += 1) {
      this.#parseOne();
    }
    if (this.#mayParse()) {
      if (this.#latest === latest) {
        // The body of a request that has begun: it waits for nobody's turn.
        setImmediate(() => this.pump());
      } else {
        this.pumpInTurn();
      }
    }
    if (!this.#socket.writable) {
      // Nothing more is answered; the socket is read to its end, or it would never close.
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
    const room = this.#last === undefined ? this.#unanswered.size < UNANSWERED_MAX : !this.#last.complete;
    return this.#held !== undefined && Boolean(parser) && draining !== true && writable && room;
  }

  /**
   * The connection is gone. Node tells the first answer and none of those behind it: whatever they hold, an upstream's
   * connection or a stream of events, would be held for ever.
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
 * Bounds the unanswered requests of each connection to {@link UNANSWERED_MAX}, ends every waiting answer with its
 * connection, and ends a connection whose framing is faulty with the answer. Call it before the server listens.
 */
export function limitPipelining(server: Server | HttpsServer): void {
  const connections = new WeakMap<Socket, Connection>();
  server.on(server instanceof HttpsServer ? "secureConnection" : "connection", (socket: Socket) => {
    // Node's own listener, which feeds the parser. A listener for data makes it hand over the bytes to begin with.
    const [feed] = socket.listeners("data") as ((bytes: Buffer) => void)[];
    if (feed === undefined) {
      throw new Error("this version of Node feeds its HTTP parser in another way");
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
