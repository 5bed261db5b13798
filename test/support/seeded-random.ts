/** Returns a generator of reproducible numbers, uniform in [0, 1) (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Returns a source of bytes that takes each from the generator. */
export function seededBytes(random: () => number): (size: number) => Buffer {
  return (size) => {
    const bytes = Buffer.allocUnsafe(size);
    for (let index = 0; index < size; index += 1) {
      bytes[index] = random() * 256;
    }
    return bytes;
  };
}
