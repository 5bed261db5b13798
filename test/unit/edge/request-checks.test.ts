import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { expect, test } from "vitest";
import { limitedBody } from "#edge/request-checks.ts";

const LIMIT = 10;

/** Returns the body that is forwarded. */
async function forwarded(chunks: readonly string[], headers: IncomingMessage["headers"]): Promise<string> {
  const body = Readable.from(chunks.map((chunk) => Buffer.from(chunk)));
  return (await buffer(limitedBody({ headers } as IncomingMessage, body, LIMIT))).toString();
}

const declared = (bytes: number) => ({ "content-length": String(bytes) });

test("a body of the limit's length passes, with a declared length and in chunks", async () => {
  expect(await forwarded(["0123456789"], declared(LIMIT))).toBe("0123456789");
  expect(await forwarded(["01234", "56789"], { "transfer-encoding": "chunked" })).toBe("0123456789");
});

test("a longer body is rejected: at once by its declared length, in chunks by what has arrived", async () => {
  const tooLarge = { code: "PAYLOAD_TOO_LARGE", status: 413 };
  const chunked = { "transfer-encoding": "chunked" };
  await expect(forwarded([], declared(LIMIT + 1))).rejects.toMatchObject(tooLarge);
  await expect(forwarded(["0123456789", "0"], chunked)).rejects.toMatchObject(tooLarge);
  await expect(
    forwarded(
      Array.from({ length: 1_000 }, () => "0123"),
      chunked,
    ),
  ).rejects.toMatchObject(tooLarge);
});
