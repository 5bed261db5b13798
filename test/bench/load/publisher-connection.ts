/** One keep-alive connection to the API with at most one request in flight. */
import { connect, type Socket } from "node:net";

const HEAD_END = Buffer.from("\r\n\r\n");
const LENGTH = /\r\ncontent-length: *(\d+)/i;
const ANSWER_TIMEOUT_MS = 60_000;

export interface ApiAnswer {
  /** 0 if the connection broke before the response was complete. */
  readonly status: number;
  readonly body: Buffer;
}

const BROKEN: ApiAnswer = { status: 0, body: Buffer.alloc(0) };

/** Parses the response at the start of the buffer, if it is complete. */
function parseAnswer(buffer: Buffer): ApiAnswer | undefined {
  const headEnd = buffer.indexOf(HEAD_END);
  if (headEnd < 0) {
    return undefined;
  }
  const head = buffer.toString("latin1", 0, headEnd);
  const length = LENGTH.exec(head)?.[1];
  if (length === undefined) {
    throw new Error(`response without Content-Length: ${head.slice(0, 200)}`);
  }
  const bodyAt = headEnd + HEAD_END.length;
  return buffer.length < bodyAt + Number(length)
    ? undefined
    : { status: Number(head.slice(9, 12)), body: buffer.subarray(bodyAt) };
}

export class ApiConnection {
  readonly #socket: Socket;
  #chunks: Buffer[] = [];
  #answered: ((answer: ApiAnswer) => void) | undefined;
  #broken = false;

  constructor(host: string, port: number) {
    this.#socket = connect({ host, port, noDelay: true });
    this.#socket.setTimeout(ANSWER_TIMEOUT_MS, () => this.#socket.destroy());
    this.#socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    this.#socket.on("error", () => this.#socket.destroy());
    this.#socket.on("close", () => {
      this.#broken = true;
      this.#finish(BROKEN);
    });
  }

  /** Whether the connection can send another request. */
  get usable(): boolean {
    return !this.#broken;
  }

  /** Sends a whole request (Latin-1) and calls back once, with its response. A callback is cheaper than a promise. */
  send(request: string, answered: (answer: ApiAnswer) => void): void {
    this.#answered = answered;
    if (this.#broken) {
      this.#finish(BROKEN);
      return;
    }
    this.#socket.write(request, "latin1");
  }

  close(): void {
    this.#socket.destroy();
  }

  #receive(chunk: Buffer): void {
    this.#chunks.push(chunk);
    const answer = parseAnswer(this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks));
    if (answer !== undefined) {
      this.#chunks = [];
      this.#finish(answer);
    }
  }

  #finish(answer: ApiAnswer): void {
    const answered = this.#answered;
    this.#answered = undefined;
    answered?.(answer);
  }
}
