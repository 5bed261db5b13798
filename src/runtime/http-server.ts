/** Functions shared by the small HTTP servers of the processes, the command line and the demo. */
import type { IncomingMessage, Server } from "node:http";
import { Server as HttpsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { setTimeout } from "node:timers/promises";

/** Address on which a server listens: a host name or address, and a port (0: any free one). */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** How often a port is tried that another process holds alone, in milliseconds, and how many times. */
const TAKEN_PORT_MS = 100;
const TAKEN_PORT_TRIES = 3_000;

/**
 * Starts listening. Returns the actual address, also for port 0.
 *
 * @param reusePort whether other processes of this user may listen there too (SO_REUSEPORT). One that does not share the
 *   port, such as an older version, is waited for, five minutes at most.
 */
export async function listenOn(
  server: Server | HttpsServer,
  { host, port }: ListenAddress,
  reusePort = false,
): Promise<ListenAddress> {
  for (let tries = 1; ; tries += 1) {
    try {
      await new Promise<void>((resolve, reject) => {
        const fail = (error: Error): void => {
          server.off("listening", resolve);
          reject(error);
        };
        server.once("error", fail).listen({ port, host, reusePort }, resolve);
      });
      break;
    } catch (error) {
      if (
        !reusePort ||
        tries === TAKEN_PORT_TRIES ||
        (error as NodeJS.ErrnoException).code !== "EADDRINUSE"
      ) {
        throw error;
      }
      await setTimeout(TAKEN_PORT_MS);
    }
  }
  const { address, port: chosen } = server.address() as AddressInfo;
  return { host: address, port: chosen };
}

/**
 * Tracks the connections on which nothing has arrived, such as those of a browser in advance or of a port check. Node does
 * not count them as idle, and a server that closes would wait for them forever.
 *
 * @returns closes them
 */
export function trackUnused(server: Server): () => void {
  const unused = new Set<Socket>();
  server.on("connection", (socket) => {
    unused.add(socket);
    socket.once("close", () => unused.delete(socket));
  });
  server.on("request", ({ socket }) => unused.delete(socket));
  return () => {
    for (const socket of unused) {
      if (socket.bytesRead === 0) {
        socket.destroy();
      }
    }
  };
}

/** Time for the first request of a connection, in milliseconds. */
const FIRST_REQUEST_MS = 30_000;

/** Ends the connections on which no request begins. Node's timeouts count from a request's first byte. */
export function endUnused(server: Server | HttpsServer, afterMs = FIRST_REQUEST_MS): void {
  server.on(server instanceof HttpsServer ? "secureConnection" : "connection", (socket: Socket) => {
    socket.setTimeout(afterMs);
  });
  server.on("request", ({ socket }: IncomingMessage) => {
    if (socket.timeout === afterMs) {
      socket.setTimeout(server.timeout);
    }
  });
}

/** Closes a server and all of its connections, even with requests under way. */
export async function closeAtOnce(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  server.closeAllConnections();
  await closed;
}

/** Code of the error that {@link answerAll} reports for CONNECT. */
export const TUNNEL_WANTED = "TUNNEL_WANTED";

/**
 * Handles requests that Node would answer itself or drop: expectations other than `100-continue`, which are ordinary
 * headers to RFC 9110 section 10.1.1, and CONNECT.
 *
 * @param refuse answers a CONNECT
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

/** Returns a header's value; empty if it is missing or repeated. */
export function headerText({ headers }: IncomingMessage, name: string): string {
  const value = headers[name];
  return typeof value === "string" ? value : "";
}
