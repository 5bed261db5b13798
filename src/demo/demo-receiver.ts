/** The receiver of the demo: a tenant's server that verifies what it gets, and can be told to fail. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { verify } from "../receiver/verify.ts";

/** Where curl lines of the documentation expect it; any free port when this one is taken. */
const PORT = 8090;
const HOST = "127.0.0.1";
const BODY_MAX = 1_048_576;
const REQUESTS_KEPT = 1_000;

/** A request that the receiver got and what it made of it. */
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
  /** The status that live events are answered with; pings are always acknowledged. */
  setAnswer(status: number): void;
  close(): Promise<void>;
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > BODY_MAX) {
      throw new Error("body too large");
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** The receiver knows its secrets only after registration, so the first ping is taken on trust. */
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

function header(request: IncomingMessage, name: string): string {
  const value = request.headers[name];
  return typeof value === "string" ? value : "";
}

/** Starts the receiver on loopback. */
export async function startDemoReceiver(now: () => number): Promise<DemoReceiver> {
  const requests: DemoRequest[] = [];
  const secrets = new Set<string>();
  let answer = 200;

  async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const rawBody = await readBody(request);
    const type = header(request, "x-service-event-type");
    const verified = isVerified(request, rawBody, secrets, now());
    const status = type === "ping" ? 200 : verified ? answer : 401;
    requests.push({
      type,
      deliveryId: header(request, "x-service-delivery-id"),
      attempt: Number(header(request, "x-service-attempt")),
      verified,
      answer: status,
    });
    requests.splice(0, requests.length - REQUESTS_KEPT);
    response.writeHead(status).end();
  }

  const server = createServer((request, response) => {
    receive(request, response).catch(() => response.destroy());
  });
  const listen = async (port: number): Promise<void> => {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, HOST, () => {
        server.off("error", reject);
        resolve();
      });
    });
  };
  await listen(PORT).catch(async () => await listen(0));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${HOST}:${port}/hook`,
    requests,
    secrets,
    setAnswer: (status) => {
      answer = status;
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}
