/** A TLS proxy in front of the run's Temporal that reads the headers of each gRPC call, and may refuse the call. */
import {
  connect,
  constants,
  createSecureServer,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo } from "node:net";
import { inject } from "vitest";
import { formatListen } from "#config/setting.ts";

const { HTTP2_HEADER_PATH, NGHTTP2_CANCEL, NGHTTP2_FLAG_END_STREAM } = constants;
/** Belong to one hop. */
const OF_THE_HOP = new Set([":scheme", ":authority", "host", "connection"]);

/** google.rpc.Code of a refusal. */
export const REFUSALS = { PERMISSION_DENIED: 7, UNIMPLEMENTED: 12, UNAUTHENTICATED: 16 } as const;
export type Refusal = keyof typeof REFUSALS;

export interface SeenCall {
  /** Name of the method, such as `StartWorkflowExecution`. */
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  readonly refused: Refusal | undefined;
}

export interface TemporalProxy {
  /** Address as `host:port`. */
  readonly address: string;
  readonly calls: readonly SeenCall[];
  close(): void;
}

function refuse(stream: ServerHttp2Stream, refusal: Refusal): void {
  stream.respond(
    {
      ":status": 200,
      "content-type": "application/grpc",
      "grpc-status": String(REFUSALS[refusal]),
      "grpc-message": "Request unauthorized.",
    },
    { endStream: true },
  );
}

/**
 * Starts the proxy.
 *
 * @param decide returns how to refuse a call, or undefined to forward it
 */
export async function startTemporalProxy(
  pair: { readonly cert: string; readonly key: string },
  decide: (call: Omit<SeenCall, "refused">) => Refusal | undefined,
): Promise<TemporalProxy> {
  const upstream = connect(`http://${inject("temporalAddress")}`);
  upstream.on("error", () => undefined);
  const calls: SeenCall[] = [];
  const server = createSecureServer(pair);
  server.on("stream", (stream, headers) => {
    stream.on("error", () => undefined);
    const call = { method: String(headers[HTTP2_HEADER_PATH]).split("/").at(-1) ?? "", headers };
    const refused = decide(call);
    calls.push({ ...call, refused });
    if (refused !== undefined) {
      refuse(stream, refused);
      return;
    }
    const forwarded = Object.fromEntries(Object.entries(headers).filter(([name]) => !OF_THE_HOP.has(name)));
    const request = upstream.request(forwarded);
    let trailers: IncomingHttpHeaders = {};
    request.on("error", () => stream.close(NGHTTP2_CANCEL));
    request.on("trailers", (given) => (trailers = given));
    request.on("response", (answer, flags) => {
      if (stream.headersSent || stream.destroyed) {
        return;
      }
      if ((flags & NGHTTP2_FLAG_END_STREAM) !== 0) {
        // An error, whose status is in the headers.
        stream.respond(answer, { endStream: true });
      } else {
        stream.respond(answer, { waitForTrailers: true });
        request.pipe(stream);
      }
    });
    stream.on("wantTrailers", () => stream.sendTrailers(trailers));
    // The client has gone, for instance at its deadline.
    stream.on("aborted", () => request.close(NGHTTP2_CANCEL));
    stream.pipe(request);
  });
  const sessions = new Set<{ destroy(): void }>();
  server.on("session", (session) => {
    sessions.add(session);
    session.on("error", () => undefined).once("close", () => sessions.delete(session));
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { address: host, port } = server.address() as AddressInfo;
  return {
    address: formatListen({ host, port }),
    calls,
    close: () => {
      server.close();
      sessions.forEach((session) => session.destroy());
      upstream.destroy();
    },
  };
}
