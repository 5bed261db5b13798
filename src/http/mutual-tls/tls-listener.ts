/** The listeners beside the plain one: TLS for clients or proxies, and a unix socket for a proxy on this machine. */
import { randomBytes } from "node:crypto";
import { chmod, rm } from "node:fs/promises";
import {
  createServer as createHttpServer,
  type RequestListener,
  type Server,
  type ServerOptions,
} from "node:http";
import { createServer as createHttpsServer, type Server as HttpsServer } from "node:https";
import type { Socket } from "node:net";
import { DEFAULT_CIPHERS } from "node:tls";
import { answerAll } from "../../runtime/http-server.ts";
import { limitPipelining } from "../../runtime/pipelined-requests.ts";

/** A handshake that takes longer is given up: it holds memory and has sent nothing yet. */
const HANDSHAKE_TIMEOUT_MS = 5_000;
/** Seconds that a session may be resumed; what has changed since is asked at each request. */
const SESSION_TIMEOUT_S = 300;
/** Longer than a request may take to arrive, shorter than a process has to end. */
const CLOSE_PATIENCE_MS = 12_000;
/** OpenSSL's session tickets: name, key and MAC key. */
const TICKET_KEYS_BYTES = 48;
const TICKET_KEYS_MS = 3_600_000;
/** OpenSSL refuses keys below 112 bits of security and SHA-1 at this level, which not every Node sets by itself. */
const CIPHERS = `${DEFAULT_CIPHERS}:@SECLEVEL=2`;

/** What serves a listener: the same routes, and the same answer to what is no request. */
export interface ListenerHandler {
  readonly request: RequestListener;
  readonly clientError: (error: NodeJS.ErrnoException, socket: Socket) => void;
  readonly timeouts: ServerOptions & { readonly keepAliveTimeout: number };
  /** A connection on which nothing moves for so long is closed, whatever it waits for; absent: it waits. */
  readonly idleTimeoutMs?: number;
}

/** The key material of a TLS listener, PEM. */
export interface TlsMaterial {
  readonly key: string;
  readonly cert: string;
  /** Authorities of those who connect. */
  readonly ca: string;
}

/**
 * A TLS server that asks for a certificate and takes whatever comes: what a route needs is answered in JSON, and a
 * reset would tell a client nothing (security decisions B).
 */
export function createTlsServer(material: TlsMaterial, handler: ListenerHandler): HttpsServer {
  const server = createHttpsServer(
    {
      ...handler.timeouts,
      ...tlsContext(material),
      requestCert: true,
      rejectUnauthorized: false,
      handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
      ALPNProtocols: ["http/1.1"],
    },
    handler.request,
  );
  // Whoever fails at the handshake speaks no HTTP that could be answered.
  server.removeAllListeners("tlsClientError").on("tlsClientError", (_error, socket) => socket.destroy());
  server.on("clientError", handler.clientError);
  answerAll(server, handler.clientError);
  limitPipelining(server);
  server.timeout = handler.idleTimeoutMs ?? 0;
  const timer = setInterval(
    () => server.setTicketKeys(randomBytes(TICKET_KEYS_BYTES)),
    TICKET_KEYS_MS,
  ).unref();
  server.once("close", () => clearInterval(timer));
  return server;
}

/** Options of a new context; its ticket keys are fresh, so no session outlives the certificates that it began under. */
export function tlsContext(material: TlsMaterial) {
  return {
    ...material,
    minVersion: "TLSv1.2",
    ciphers: CIPHERS,
    sessionTimeout: SESSION_TIMEOUT_S,
    ticketKeys: randomBytes(TICKET_KEYS_BYTES),
  } as const;
}

/** A plain HTTP server: for a unix socket, and in development. */
export function createPlainServer(handler: ListenerHandler): Server {
  const server = createHttpServer(handler.timeouts, handler.request);
  server.on("clientError", handler.clientError);
  answerAll(server, handler.clientError);
  limitPipelining(server);
  server.timeout = handler.idleTimeoutMs ?? 0;
  return server;
}

/** Listens on a unix socket that its owner and group can open; one that an earlier process has left is replaced. */
export async function listenOnSocket(server: Server, path: string): Promise<void> {
  await rm(path, { force: true });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(path, resolve);
  });
  await chmod(path, 0o660);
}

/** Answers what is under way, then closes. */
export async function closeServer(server: Server | HttpsServer): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  server.closeIdleConnections();
  // A connection that never asked for anything is not idle to Node, and would be waited for without end.
  const patience = setTimeout(() => server.closeAllConnections(), CLOSE_PATIENCE_MS);
  await closed;
  clearTimeout(patience);
}
