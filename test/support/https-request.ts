/** Requests over TLS with or without a client certificate, each on a connection of its own unless told otherwise. */
import { request as httpsRequest, type Agent } from "node:https";
import { request as httpRequest, type IncomingHttpHeaders, type OutgoingHttpHeaders } from "node:http";
import type { TLSSocket } from "node:tls";
import type { KeyPair } from "../../src/http/mutual-tls/authority.ts";
import { parseObject } from "./answer.ts";

export interface CallOptions {
  readonly port?: number;
  /** A unix socket instead of a port. */
  readonly socketPath?: string;
  /** Trusted roots; without them the request is plain HTTP. */
  readonly ca?: string;
  readonly pair?: KeyPair | undefined;
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  /** Names and values in turn, as they go out: for headers that are sent twice. */
  readonly rawHeaders?: readonly string[];
  /** Sent as JSON. */
  readonly json?: unknown;
  readonly agent?: Agent;
  /** The address to come from. */
  readonly localAddress?: string;
  /** A session to resume. */
  readonly session?: Buffer | undefined;
  readonly maxVersion?: "TLSv1.2" | "TLSv1.3";
}

export interface CallAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly reused: boolean;
  /** What the server gave to resume the session with. */
  readonly session: Buffer | undefined;
}

/** Sends one request and reads the answer to its end. */
export async function call(path: string, options: CallOptions): Promise<CallAnswer> {
  const { ca, pair, json, port, socketPath, agent, session, maxVersion } = options;
  const payload = json === undefined ? undefined : JSON.stringify(json);
  const contentType = payload === undefined ? {} : { "content-type": "application/json" };
  const headers = options.rawHeaders ?? { ...contentType, ...options.headers };
  return await new Promise((resolve, reject) => {
    const common = {
      path,
      method: options.method ?? (payload === undefined ? "GET" : "POST"),
      headers,
      ...(options.localAddress === undefined ? {} : { localAddress: options.localAddress }),
      ...(socketPath === undefined ? { host: "127.0.0.1", port } : { socketPath }),
    };
    let ticket: Buffer | undefined;
    const request =
      ca === undefined
        ? httpRequest({ ...common, agent: agent ?? false })
        : httpsRequest({
            ...common,
            ca,
            agent: agent ?? false,
            // A client that does not mind what it shows: the server must.
            ...(pair === undefined ? {} : { key: pair.key, cert: pair.cert, ciphers: "DEFAULT:@SECLEVEL=0" }),
            ...(session === undefined ? {} : { session }),
            ...(maxVersion === undefined ? {} : { maxVersion }),
          });
    let reused = false;
    request.on("socket", (socket) => {
      if (request.reusedSocket) {
        return;
      }
      socket.on("session", (found: Buffer) => (ticket = found));
      socket.on("secureConnect", () => (reused = (socket as TLSSocket).isSessionReused()));
    });
    request.on("error", reject);
    request.on("response", (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      response.once("error", reject);
      response.on("end", () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          body: parseObject(text),
          reused,
          session: ticket,
        }),
      );
    });
    request.end(payload);
  });
}
