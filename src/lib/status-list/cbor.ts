/** CBOR (RFC 8949) as far as a status list needs it: definite lengths, the shortest forms, numbers below 2^32. */

export type Cbor = number | string | Uint8Array | readonly Cbor[] | ReadonlyMap<Cbor, Cbor>;

const ITEMS_MAX = 32;
const DEPTH_MAX = 4;
/** The least argument that needs 1, 2 or 4 more bytes. */
const LEAST = [24, 256, 65_536] as const;

function head(major: number, argument: number): Buffer {
  const more = LEAST.filter((least) => argument >= least).length;
  const bytes = Buffer.alloc(more === 0 ? 1 : 1 + 2 ** (more - 1));
  bytes[0] = (major << 5) | (more === 0 ? argument : 23 + more);
  if (more > 0) {
    bytes.writeUIntBE(argument, 1, bytes.length - 1);
  }
  return bytes;
}

/** Encodes a value. Keys of a map stay in their order. @throws RangeError for a number of more than 32 bits */
export function encodeCbor(value: Cbor): Buffer {
  if (typeof value === "number") {
    return value < 0 ? head(1, -1 - value) : head(0, value);
  }
  if (typeof value === "string") {
    const text = Buffer.from(value);
    return Buffer.concat([head(3, text.length), text]);
  }
  if (value instanceof Uint8Array) {
    return Buffer.concat([head(2, value.length), value]);
  }
  return value instanceof Map
    ? Buffer.concat([head(5, value.size), ...[...value].flat().map(encodeCbor)])
    : Buffer.concat([
        head(4, (value as readonly Cbor[]).length),
        ...(value as readonly Cbor[]).map(encodeCbor),
      ]);
}

/** Decodes one value, whose byte strings share the memory of the input. @throws TypeError if it is malformed */
export function decodeCbor(bytes: Buffer): Cbor {
  let at = 0;
  function take(length: number): Buffer {
    at += length;
    if (at > bytes.length) {
      throw new TypeError("the CBOR ends early");
    }
    return bytes.subarray(at - length, at);
  }
  function argumentOf(short: number): number {
    const least = LEAST[short - 24];
    const argument = least === undefined ? short : take(2 ** (short - 24)).readUIntBE(0, 2 ** (short - 24));
    if (short > 26 || (least !== undefined && argument < least)) {
      throw new TypeError("the CBOR is not in its shortest form");
    }
    return argument;
  }
  function item(depth: number): Cbor {
    const first = take(1).readUInt8();
    const [major, argument] = [first >> 5, argumentOf(first & 31)];
    if (major === 2 || major === 3) {
      const content = take(argument);
      return major === 2 ? content : new TextDecoder("utf-8", { fatal: true }).decode(content);
    }
    if (major < 2) {
      return major === 0 ? argument : -1 - argument;
    }
    if (major > 5 || argument > ITEMS_MAX || depth === DEPTH_MAX) {
      throw new TypeError("the CBOR has an unknown form");
    }
    const items = Array.from({ length: argument * (major - 3) }, () => item(depth + 1));
    if (major === 4) {
      return items;
    }
    const pairs = Array.from(
      { length: argument },
      (_, pair) => [items[2 * pair], items[2 * pair + 1]] as const,
    );
    const map = new Map(pairs as readonly (readonly [Cbor, Cbor])[]);
    if (map.size < argument) {
      throw new TypeError("the CBOR has a key twice");
    }
    return map;
  }
  const value = item(0);
  if (at < bytes.length) {
    throw new TypeError("the CBOR has more than one value");
  }
  return value;
}
