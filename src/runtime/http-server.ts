/** What the small HTTP servers of the processes, the command line and the demo have in common. */
import type { IncomingMessage, Server } from "node:http";
import type { Server as HttpsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";

/** Where a server listens: a name or an address, and a port (0: any that is free). */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** Listens; resolves with the address that it got, where port 0 is any that is free. */
export async function listenOn(
  server: Server | HttpsServer,
  { host, port }: ListenAddress,
): Promise<ListenAddress> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(port, host, resolve);
  });
  const { address, port: chosen } = server.address() as AddressInfo;
  return { host: address, port: chosen };
}

/** Closes a server and every connection to it, also what is under way. */
export async function closeAtOnce(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  server.closeAllConnections();
  await closed;
}

/** Code of the error that {@link answerAll} makes of CONNECT. */
export const TUNNEL_WANTED = "TUNNEL_WANTED";

/**
 * Takes from Node what it answers in words of its own, or closes without one: an expectation other than
 * `100-continue`, which RFC 9110 section 10.1.1 lets pass like any header, and CONNECT.
 *
 * @param refuse what answers to that which is no request
 */
export function answerAll(
  server: Server | HttpsServer,
  refuse: (error: NodeJS.ErrnoException, socket: Socket) => void,
): void {
  server.on("checkExpectation", (request, response) => {
    server.emit("request", request, response);
  });
  server.on("connect", (_request, socket: Socket) => {
    refuse(Object.assign(new Error("CONNECT"), { code: TUNNEL_WANTED }), socket);
  });
}

/**
 * The body of a request.
 *
 * @param maxBytes more than that is not read
 * @throws Error when there is more
 */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) {
      throw new Error("body too large");
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** A header's value; empty where it is missing or there are several. */
export function headerText({ headers }: IncomingMessage, name: string): string {
  const value = headers[name];
  return typeof value === "string" ? value : "";
}
