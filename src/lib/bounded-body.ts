/** Reads the body of a request or an answer, and counts while it reads: a hostile other side sends without end. */

type Body = AsyncIterable<Uint8Array> | null;

/** Limit for an answer of the service, in bytes: above any page of a list, which has 100 events of 256 KiB, escaped. */
const ANSWER_BYTES_MAX = 67_108_864;

/** Returns the first bytes of a body. Leaves the rest, which ends the connection. */
export async function readStart(body: Body, bytesMax: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    chunks.push(chunk);
    length += chunk.length;
    if (length >= bytesMax) {
      break;
    }
  }
  return Buffer.concat(chunks).subarray(0, bytesMax);
}

/** @throws Error if the body has more than `bytesMax` bytes */
export async function readBody(body: Body, bytesMax: number): Promise<Buffer> {
  const read = await readStart(body, bytesMax + 1);
  if (read.length > bytesMax) {
    throw new Error(`the body is longer than ${bytesMax} bytes`);
  }
  return read;
}

/** Returns the text of an answer of the service. @throws Error if it is longer than any */
export async function readText({ body }: Response): Promise<string> {
  return new TextDecoder().decode(await readBody(body, ANSWER_BYTES_MAX));
}
