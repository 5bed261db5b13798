/**
 * The grammar of JSON (RFC 8259) as a cursor over bytes: every method checks one construct and steps over it. The
 * cursor builds no values, so it is faster than a parser. `strict-json.ts` reads values with it.
 */
import { isAscii } from "node:buffer";
import { SignetError } from "#domain/errors.ts";

const TAB = 0x09;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const SPACE = 0x20;
export const QUOTE = 0x22;
const COMMA = 0x2c;
export const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
export const COLON = 0x3a;
export const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
export const CLOSE_BRACKET = 0x5d;
const LOWER_U = 0x75;
export const OPEN_BRACE = 0x7b;
export const CLOSE_BRACE = 0x7d;

/** Bytes that end the fast path through a string: quote, backslash, control characters. */
const STRING_STOP = new Uint8Array(256);
STRING_STOP.fill(1, 0, 0x20);
STRING_STOP[QUOTE] = 1;
STRING_STOP[BACKSLASH] = 1;

const SHORT_ESCAPES = new Set(Buffer.from('"\\/bfnrt'));
const LITERALS = new Map<number, { readonly text: string; readonly value: boolean | null }>(
  [true, false, null].map((value) => [String(value).charCodeAt(0), { text: String(value), value }]),
);

export function isDigit(byte: number): boolean {
  return byte >= ZERO && byte <= NINE;
}

function isHexDigit(byte: number): boolean {
  const lower = byte | 0x20;
  return isDigit(byte) || (lower >= 0x61 && lower <= 0x66);
}

/** Returns the error for an unacceptable body, with the byte offset. */
export function invalid(problem: string, at: number): SignetError {
  return new SignetError("INVALID_REQUEST", {
    detail: `The body is not acceptable JSON: ${problem} at byte ${at}.`,
  });
}

/** The nesting exceeds the limit; the text may still be valid JSON. */
export class NestedTooDeeply extends SignetError {
  constructor(at: number) {
    super("INVALID_REQUEST", { detail: `The body is not acceptable JSON: nested too deeply at byte ${at}.` });
  }
}

/** Steps over JSON text. Throws `INVALID_REQUEST` for invalid JSON. */
export class JsonCursor {
  protected at = 0;
  protected readonly bytes: Buffer;
  private readonly encoding: "latin1" | "utf8";

  constructor(bytes: Buffer) {
    this.bytes = bytes;
    this.encoding = isAscii(bytes) ? "latin1" : "utf8";
  }

  protected unexpected(): SignetError {
    return invalid(this.at < this.bytes.length ? "unexpected character" : "unexpected end", this.at);
  }

  /** Returns the byte under the cursor, or 0 at the end. JSON allows U+0000 nowhere, so 0 is unambiguous. */
  protected peek(): number {
    return this.at < this.bytes.length ? (this.bytes[this.at] ?? 0) : 0;
  }

  protected skipSpace(): void {
    for (;;) {
      const byte = this.peek();
      if (byte !== SPACE && byte !== LINE_FEED && byte !== CARRIAGE_RETURN && byte !== TAB) {
        return;
      }
      this.at += 1;
    }
  }

  protected slice(start: number, end = this.at): string {
    return this.bytes.toString(this.encoding, start, end);
  }

  /** Steps over the opening bracket under the cursor and the space after it. */
  protected enter(depth: number): void {
    if (depth < 1) {
      throw new NestedTooDeeply(this.at);
    }
    this.at += 1;
    this.skipSpace();
  }

  /** Returns whether the list is empty, and if so steps over its end. */
  protected leave(close: number): boolean {
    if (this.peek() !== close) {
      return false;
    }
    this.at += 1;
    return true;
  }

  /** Steps over the comma to the next element and returns true, or over the end of the list and returns false. */
  protected next(close: number): boolean {
    this.skipSpace();
    const byte = this.peek();
    if (byte !== COMMA && byte !== close) {
      throw this.unexpected();
    }
    this.at += 1;
    if (byte === close) {
      return false;
    }
    this.skipSpace();
    return true;
  }

  /** Steps over a byte and the space around it. */
  protected expect(byte: number): void {
    this.skipSpace();
    if (this.peek() !== byte) {
      throw this.unexpected();
    }
    this.at += 1;
    this.skipSpace();
  }

  protected skipValue(depth: number): void {
    const byte = this.peek();
    if (byte === QUOTE) {
      this.skipString();
    } else if (byte === OPEN_BRACE) {
      this.skipObject(depth);
    } else if (byte === OPEN_BRACKET) {
      this.skipArray(depth);
    } else if (byte === MINUS || isDigit(byte)) {
      this.skipNumber();
    } else {
      this.skipLiteral();
    }
  }

  private skipObject(depth: number): void {
    this.enter(depth);
    if (this.leave(CLOSE_BRACE)) {
      return;
    }
    do {
      if (this.peek() !== QUOTE) {
        throw this.unexpected();
      }
      this.skipString();
      this.expect(COLON);
      this.skipValue(depth - 1);
    } while (this.next(CLOSE_BRACE));
  }

  private skipArray(depth: number): void {
    this.enter(depth);
    if (this.leave(CLOSE_BRACKET)) {
      return;
    }
    do {
      this.skipValue(depth - 1);
    } while (this.next(CLOSE_BRACKET));
  }

  /** Steps over a string. Returns whether it contains escapes. */
  protected skipString(): boolean {
    const { bytes } = this;
    const end = bytes.length;
    let at = this.at + 1;
    let escaped = false;
    for (;;) {
      while (at < end && STRING_STOP[bytes[at] ?? 0] === 0) {
        at += 1;
      }
      this.at = at;
      const byte = this.peek();
      if (byte === QUOTE) {
        break;
      }
      if (byte !== BACKSLASH) {
        throw this.unexpected();
      }
      escaped = true;
      this.skipEscape();
      ({ at } = this);
    }
    this.at = at + 1;
    return escaped;
  }

  private skipEscape(): void {
    this.at += 1;
    const unicode = this.peek() === LOWER_U;
    if (!unicode && !SHORT_ESCAPES.has(this.peek())) {
      throw this.unexpected();
    }
    this.at += 1;
    for (let digits = unicode ? 4 : 0; digits > 0; digits -= 1) {
      if (!isHexDigit(this.peek())) {
        throw this.unexpected();
      }
      this.at += 1;
    }
  }

  protected skipNumber(): void {
    if (this.peek() === MINUS) {
      this.at += 1;
    }
    if (this.peek() === ZERO) {
      this.at += 1;
    } else {
      this.skipDigits();
    }
    if (this.peek() === DOT) {
      this.at += 1;
      this.skipDigits();
    }
    if ((this.peek() | 0x20) === 0x65) {
      this.at += 1;
      if (this.peek() === MINUS || this.peek() === 0x2b) {
        this.at += 1;
      }
      this.skipDigits();
    }
  }

  private skipDigits(): void {
    if (!isDigit(this.peek())) {
      throw this.unexpected();
    }
    while (isDigit(this.peek())) {
      this.at += 1;
    }
  }

  protected skipLiteral(): boolean | null {
    const literal = LITERALS.get(this.peek());
    if (literal === undefined) {
      throw this.unexpected();
    }
    const end = this.at + literal.text.length;
    if (this.slice(this.at, end) !== literal.text) {
      throw this.unexpected();
    }
    this.at = end;
    return literal.value;
  }
}
