/** Responds to input that the HTTP parser rejected, with nothing but a socket. */
import type { Socket } from "node:net";
import { METHODS, STATUS_CODES } from "node:http";
import { type ErrorCode, SignetError } from "#domain/errors.ts";
import { TUNNEL_WANTED } from "#runtime/http-server.ts";
import { PROBLEM_JSON, problemDocument } from "../problem.ts";
import { URI_MAX, uriTooLong } from "../uri-length.ts";
import { type AllowedMethods, noSuchRoute } from "./allowed-methods.ts";

const PARSER_CODES: Readonly<Record<string, { code: ErrorCode; detail: string }>> = {
  HPE_HEADER_OVERFLOW: { code: "HEADERS_TOO_LARGE", detail: "The headers are larger than 16 KiB." },
  HPE_CHUNK_EXTENSIONS_OVERFLOW: { code: "PAYLOAD_TOO_LARGE", detail: "The chunk extensions are too large." },
  [TUNNEL_WANTED]: { code: "INVALID_REQUEST", detail: "CONNECT is not supported; this is not a proxy." },
  ERR_HTTP_REQUEST_TIMEOUT: { code: "REQUEST_TIMEOUT", detail: "The request took too long to arrive." },
};

/** Node's error for input that its parser rejected. */
interface ParserFailure extends NodeJS.ErrnoException {
  /** The chunk that failed, and how many of its bytes were parsed. */
  readonly rawPacket?: Buffer;
  readonly bytesParsed?: number;
}

/** Matches a method and a target without the end of the line, or of more characters than a target may have. */
const LONG_REQUEST_LINE = new RegExp(String.raw`^[A-Z-]{1,32} (?:[^\n]*$|\S{${URI_MAX + 1}})`);

/** Checks whether the target is why the headers are too large. Cannot detect one that came in several chunks. */
function isAddressTooLong({ code, rawPacket, bytesParsed }: ParserFailure): boolean {
  return (
    code === "HPE_HEADER_OVERFLOW" &&
    rawPacket !== undefined &&
    LONG_REQUEST_LINE.test(rawPacket.toString("latin1", 0, bytesParsed))
  );
}

/** Matches the line of a request with a path, whatever its method. */
const REQUEST_LINE = /^(?<method>[!#$%&'*+.^_`|~\w-]{1,32}) (?<path>\/[^\s?#]*)[^\s]* HTTP\/1\.[01]\r?\n/;
const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS);

/** Returns the path of a request whose method the parser does not know. Such a method is well-formed. */
function pathOfUnknownMethod({ code, rawPacket }: ParserFailure): string | undefined {
  const line = code === "HPE_INVALID_METHOD" ? REQUEST_LINE.exec(rawPacket?.toString("latin1") ?? "") : null;
  const { method = "", path } = line?.groups ?? {};
  // After a known one, another request of the same packet has failed.
  return KNOWN_METHODS.has(method) ? undefined : path;
}

function errorOf(failure: ParserFailure, allowed: AllowedMethods | undefined): SignetError {
  if (isAddressTooLong(failure)) {
    return uriTooLong(failure);
  }
  const path = pathOfUnknownMethod(failure);
  if (path !== undefined && allowed !== undefined) {
    return noSuchRoute(path, allowed);
  }
  const known = PARSER_CODES[failure.code ?? ""];
  return new SignetError(known?.code ?? "INVALID_REQUEST", {
    detail: known?.detail ?? "The HTTP request is malformed.",
  });
}

/** Checks whether the socket is sending a response, which a second one would corrupt. */
function isAnswering(socket: Socket): boolean {
  const { _httpMessage: message } = socket as Socket & { _httpMessage?: { headersSent?: boolean } | null };
  return message?.headersSent === true;
}

/** Responds on a connection whose request cannot be routed. */
export type RefuseConnection = (error: NodeJS.ErrnoException, socket: Socket) => void;

/**
 * Creates Fastify's `clientErrorHandler`.
 *
 * @param allowed returns the methods of paths; absent without routes
 */
export function createClientErrorHandler(
  baseUrl: string,
  newRequestId: () => string,
  allowed?: () => AllowedMethods,
): RefuseConnection {
  return (failure, socket) => {
    if (!socket.writable || failure.code === "ECONNRESET" || isAnswering(socket)) {
      socket.destroy();
      return;
    }
    const error = errorOf(failure, allowed?.());
    const requestId = newRequestId();
    const body = JSON.stringify(problemDocument(error, { baseUrl, requestId }));
    const head = [
      `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status] ?? ""}`,
      `Content-Type: ${PROBLEM_JSON}`,
      `Content-Length: ${Buffer.byteLength(body)}`,
      "Cache-Control: no-store",
      `X-Request-Id: ${requestId}`,
      ...(error.headers["allow"] === undefined ? [] : [`Allow: ${error.headers["allow"]}`]),
      "Connection: close",
    ];
    socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
  };
}
