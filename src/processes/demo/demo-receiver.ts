/** The receiver of the demo: a tenant's server that verifies requests and can be set to fail. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { readBody } from "#lib/bounded-body.ts";
import { closeAtOnce, endUnused, headerText, listenOn } from "#runtime/http-server.ts";
import { verify } from "#lib/receiver/verify.ts";

/** The port that the documentation's curl commands use; any free port if it is taken. */
const PORT = 8090;
const HOST = "127.0.0.1";
const BODY_MAX = 1_048_576;
const REQUESTS_KEPT = 1_000;

/** A request to the receiver and its result. */
export interface DemoRequest {
  readonly type: string;
  readonly deliveryId: string;
  readonly attempt: number;
  readonly verified: boolean;
  readonly answer: number;
}

/** The receiver knows its secrets only after registration, so it accepts the first ping unverified. */
function isVerified(
  request: IncomingMessage,
  rawBody: Buffer,
  secrets: ReadonlySet<string>,
  now: number,
): boolean {
  try {
    verify({ rawBody, headers: request.headers, secrets: [...secrets], now });
    return true;
  } catch {
    return false;
  }
}

export class DemoReceiver {
  /** Newest last; the newest thousand. */
  readonly requests: DemoRequest[] = [];
  /** Secrets of the endpoints that point here. */
  readonly secrets = new Set<string>();
  /** The status of answers to events; pings are always acknowledged. */
  answer = 200;
  #port = 0;
  readonly #now: () => number;
  readonly #server = createServer((request, response) => {
    this.#receive(request, response).catch(() => response.destroy());
  });

  private constructor(now: () => number) {
    this.#now = now;
    endUnused(this.#server);
  }

  /** Starts the receiver on loopback. */
  static async start(now: () => number): Promise<DemoReceiver> {
    const receiver = new DemoReceiver(now);
    const listening = async (port: number) => await listenOn(receiver.#server, { host: HOST, port });
    receiver.#port = (await listening(PORT).catch(async () => await listening(0))).port;
    return receiver;
  }

  get url(): string {
    return `http://${HOST}:${this.#port}/hook`;
  }

  async close(): Promise<void> {
    await closeAtOnce(this.#server);
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const rawBody = await readBody(request, BODY_MAX);
    const type = headerText(request, "x-service-event-type");
    const verified = isVerified(request, rawBody, this.secrets, this.#now());
    const answer = type === "ping" ? 200 : verified ? this.answer : 401;
    this.requests.push({
      type,
      deliveryId: headerText(request, "x-service-delivery-id"),
      attempt: Number(headerText(request, "x-service-attempt")),
      verified,
      answer,
    });
    this.requests.splice(0, this.requests.length - REQUESTS_KEPT);
    response.writeHead(answer).end();
  }
}
