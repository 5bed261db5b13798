/**
 * Reads the body of a request or an answer, and counts while it reads: a hostile other side sends without end.
 *
 * @throws Error if the body has more than `bytesMax` bytes
 */
export async function readBody(body: AsyncIterable<Uint8Array> | null, bytesMax: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    length += chunk.length;
    if (length > bytesMax) {
      throw new Error(`the body is longer than ${bytesMax} bytes`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
