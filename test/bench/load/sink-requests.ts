/** Minimal HTTP/1.1 for a webhook receiver: requests with Content-Length, responses without a body. */
import type { Socket } from "node:net";

const HEAD_END = Buffer.from("\r\n\r\n");
const LENGTH = /\r\ncontent-length: *(\d+)/i;

/** Receives the buffer that holds a whole request, and the offset of its body. */
export type OnRequest = (socket: Socket, buffer: Buffer, bodyAt: number) => void;

/** Splits the data of a connection into requests. */
export function readRequests(socket: Socket, onRequest: OnRequest): void {
  let rest: Buffer | undefined;
  socket.on("data", (chunk: Buffer) => {
    const buffer = rest === undefined ? chunk : Buffer.concat([rest, chunk]);
    rest = undefined;
    let from = 0;
    while (from < buffer.length) {
      const headEnd = buffer.indexOf(HEAD_END, from);
      const length = headEnd < 0 ? undefined : LENGTH.exec(buffer.toString("latin1", from, headEnd))?.[1];
      if (headEnd >= 0 && length === undefined) {
        socket.destroy();
        return;
      }
      const bodyAt = headEnd + HEAD_END.length;
      const end = bodyAt + Number(length ?? 0);
      if (headEnd < 0 || end > buffer.length) {
        rest = from === 0 ? buffer : buffer.subarray(from);
        return;
      }
      onRequest(socket, end === buffer.length && from === 0 ? buffer : buffer.subarray(0, end), bodyAt);
      from = end;
    }
  });
}

/** Returns a complete response with that status and no body. */
export function answerBytes(status: number): Buffer {
  return Buffer.from(`HTTP/1.1 ${status} ${status < 300 ? "OK" : "Failed"}\r\nContent-Length: 0\r\n\r\n`);
}
