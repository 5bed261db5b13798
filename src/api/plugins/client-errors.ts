/** Answers to what is no HTTP request at all: the parser refused it, so there is a socket and nothing else. */
import type { Socket } from "node:net";
import { STATUS_CODES } from "node:http";
import { type ErrorCode, SignetError } from "../../errors.ts";
import { PROBLEM_JSON, problemDocument } from "../problem.ts";

const PARSER_CODES: Readonly<Record<string, { code: ErrorCode; detail: string }>> = {
  HPE_HEADER_OVERFLOW: { code: "HEADERS_TOO_LARGE", detail: "The headers are larger than 16 KiB." },
  HPE_CHUNK_EXTENSIONS_OVERFLOW: { code: "PAYLOAD_TOO_LARGE", detail: "The chunk extensions are too large." },
  ERR_HTTP_REQUEST_TIMEOUT: { code: "REQUEST_TIMEOUT", detail: "The request took too long to arrive." },
};

/** Whether the socket is in the middle of an answer, which a second one would corrupt. */
function isAnswering(socket: Socket): boolean {
  const { _httpMessage: message } = socket as Socket & { _httpMessage?: { headersSent?: boolean } | null };
  return message?.headersSent === true;
}

/** Makes Fastify's `clientErrorHandler`. */
export function createClientErrorHandler(
  baseUrl: string,
  newRequestId: () => string,
): (error: NodeJS.ErrnoException, socket: Socket) => void {
  return (failure, socket) => {
    if (!socket.writable || failure.code === "ECONNRESET" || isAnswering(socket)) {
      socket.destroy();
      return;
    }
    const known = PARSER_CODES[failure.code ?? ""];
    const error = new SignetError(known?.code ?? "INVALID_REQUEST", {
      detail: known?.detail ?? "This is not a well-formed HTTP request.",
    });
    const requestId = newRequestId();
    const body = JSON.stringify(problemDocument(error, { baseUrl, requestId }));
    const head = [
      `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status] ?? ""}`,
      `Content-Type: ${PROBLEM_JSON}`,
      `Content-Length: ${Buffer.byteLength(body)}`,
      "Cache-Control: no-store",
      `X-Request-Id: ${requestId}`,
      "Connection: close",
    ];
    socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
  };
}
