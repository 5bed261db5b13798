/** Bytes as text, without Node's `Buffer`: browsers run this code too. */

/** Decodes canonical base64; undefined if invalid. */
export function decodeBase64(text: string): Uint8Array | undefined {
  try {
    const binary = atob(text);
    return btoa(binary) === text
      ? Uint8Array.from(binary, (character) => character.charCodeAt(0))
      : undefined;
  } catch {
    return undefined;
  }
}

/** Decodes lower-case hexadecimal; undefined if invalid. */
export function decodeHex(text: string): Uint8Array | undefined {
  return /^(?:[0-9a-f]{2})*$/.test(text)
    ? Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16))
    : undefined;
}

export function encodeHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function concatBytes(...parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

export function equalBytes(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && left.every((byte, index) => byte === right[index]);
}
