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

export interface DemoReceiver {
  readonly url: string;
  /** Newest last; the newest thousand. */
  readonly requests: readonly DemoRequest[];
  /** Secrets of the endpoints that point here. */
  readonly secrets: Set<string>;
  /** The status of answers to events; pings are always acknowledged. */
  setAnswer(status: number): void;
  close(): Promise<void>;
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

/** Starts the receiver on loopback. */
export async function startDemoReceiver(now: () => number): Promise<DemoReceiver> {
  const requests: DemoRequest[] = [];
  const secrets = new Set<string>();
  let answer = 200;

  async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const rawBody = await readBody(request, BODY_MAX);
    const type = headerText(request, "x-service-event-type");
    const verified = isVerified(request, rawBody, secrets, now());
    const status = type === "ping" ? 200 : verified ? answer : 401;
    requests.push({
      type,
      deliveryId: headerText(request, "x-service-delivery-id"),
      attempt: Number(headerText(request, "x-service-attempt")),
      verified,
      answer: status,
    });
    requests.splice(0, requests.length - REQUESTS_KEPT);
    response.writeHead(status).end();
  }

  const server = createServer((request, response) => {
    receive(request, response).catch(() => response.destroy());
  });
  endUnused(server);
  const { port } = await listenOn(server, { host: HOST, port: PORT }).catch(
    async () => await listenOn(server, { host: HOST, port: 0 }),
  );
  return {
    url: `http://${HOST}:${port}/hook`,
    requests,
    secrets,
    setAnswer: (status) => {
      answer = status;
    },
    close: async () => await closeAtOnce(server),
  };
}
