import { connect, createServer, type AddressInfo } from "node:net";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { dataHead, dataTail, findIndex, indexText } from "#test/bench/load/event-id.ts";
import { readRequests } from "#test/bench/load/sink-requests.ts";
import { cases } from "#test/support/properties.ts";

const RUN = "0a1b2c3d";

function request(index: number, envelope: string): Buffer {
  const body = `{"id":"evt_1"${envelope},"data":${dataHead(RUN)}${indexText(index)}${dataTail(RUN, 200)}}`;
  return Buffer.from(
    `POST /hook HTTP/1.1\r\nHost: x\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

/** Sends the pieces in turn and returns the indexes that the sink found. */
async function indexesOf(pieces: readonly Buffer[], count: number): Promise<number[]> {
  const found: number[] = [];
  return await new Promise((resolve, reject) => {
    const server = createServer((socket) => {
      readRequests(socket, (_, buffer, at) => {
        found.push(findIndex(buffer, at, Buffer.from(RUN)));
        if (found.length === count) {
          socket.destroy();
          server.close(() => resolve(found));
        }
      });
    });
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      const client = connect({ host: "127.0.0.1", port, noDelay: true });
      const send = (piece: number): void => {
        const bytes = pieces[piece];
        if (bytes !== undefined) {
          client.write(bytes, () => setImmediate(send, piece + 1));
        }
      };
      client.once("connect", () => send(0)).on("error", reject);
    });
  });
}

describe("the bench's sink", () => {
  it("finds every event once, however its requests are split", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(99_999_999), { minLength: 1, maxLength: 5 }),
        fc.array(fc.integer({ min: 1, max: 400 }), { maxLength: 8 }),
        async (indexes, cuts) => {
          const all = Buffer.concat(indexes.map((index) => request(index, ',"attempt":1')));
          const pieces: Buffer[] = [];
          let from = 0;
          for (const length of cuts) {
            pieces.push(all.subarray(from, from + length));
            from += length;
          }
          pieces.push(all.subarray(from));
          const sent = pieces.filter((piece) => piece.length > 0);
          expect(await indexesOf(sent, indexes.length)).toEqual(indexes);
        },
      ),
      cases(30),
    );
  });

  it("distinguishes its own events from pings and events of other runs", () => {
    const own = request(7, "");
    expect(findIndex(own, 0, Buffer.from(RUN))).toBe(7);
    expect(findIndex(own, 0, Buffer.from("ffffffff"))).toBe(-2);
    expect(findIndex(Buffer.from('{"type":"ping"}'), 0, Buffer.from(RUN))).toBe(-1);
  });

  it("makes payloads of exactly the requested size", () => {
    const data = `${dataHead(RUN)}${indexText(12)}${dataTail(RUN, 500)}`;
    expect(Buffer.byteLength(data)).toBe(500);
    expect(JSON.parse(data)).toMatchObject({ bench_id: `${RUN}-00000012` });
  });
});
