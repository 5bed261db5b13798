/**
 * Reads the body of an answer, and counts while it reads: a hostile server sends without end.
 *
 * @throws Error if the body has more than `bytesMax` bytes
 */
export async function readBody({ body }: Pick<Response, "body">, bytesMax: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    length += chunk.length;
    if (length > bytesMax) {
      throw new Error(`the answer is longer than ${bytesMax} bytes`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
