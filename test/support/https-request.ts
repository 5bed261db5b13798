/** Sends TLS requests with or without a client certificate, by default each on its own connection. */
import { request as httpsRequest, type Agent } from "node:https";
import { request as httpRequest, type IncomingHttpHeaders, type OutgoingHttpHeaders } from "node:http";
import type { TLSSocket } from "node:tls";
import type { KeyPair } from "#http/mutual-tls/authority.ts";
import { parseObject, unlessStale } from "./answer.ts";

export interface CallOptions {
  readonly port?: number;
  /** Unix socket to use instead of a port. */
  readonly socketPath?: string;
  /** Trusted roots; if absent, the request is plain HTTP. */
  readonly ca?: string;
  readonly pair?: KeyPair | undefined;
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  /** Header names and values in turn, as sent; allows duplicate headers. */
  readonly rawHeaders?: readonly string[];
  /** Body, sent as JSON. */
  readonly json?: unknown;
  readonly agent?: Agent;
  /** Local address of the connection. */
  readonly localAddress?: string;
  /** TLS session to resume. */
  readonly session?: Buffer | undefined;
  readonly maxVersion?: "TLSv1.2" | "TLSv1.3";
}

export interface CallAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly reused: boolean;
  /** TLS session from the server, to resume later. */
  readonly session: Buffer | undefined;
}

/** Sends one request and reads the whole response, as `unlessStale`. */
export async function call(path: string, options: CallOptions): Promise<CallAnswer> {
  return await unlessStale(async () => await callOnce(path, options));
}

/** Sends one request once, also while the process cannot hear revocations. */
export async function callOnce(path: string, options: CallOptions): Promise<CallAnswer> {
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
            // The client accepts weak certificates, so that the server must reject them.
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
