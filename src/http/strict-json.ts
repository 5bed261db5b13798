/**
 * A JSON parser (RFC 8259) for request bodies, stricter and less lossy than `JSON.parse`.
 *
 * It rejects invalid UTF-8, lone surrogates, U+0000, numbers that a double cannot hold, and deep nesting. It also rejects
 * repeated member names in any spelling: `JSON.parse` silently keeps the last one, so two readers of one body can
 * disagree. It preserves the exact text of opaque members, which the service passes on unread; they only have to be
 * JSON.
 *
 * Values inside opaque members are validated but not built.
 */
import { isUtf8 } from "node:buffer";
import { Decimal, isSameDouble } from "#domain/decimal.ts";
import { SignetError } from "#domain/errors.ts";
import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  JsonCursor,
  MINUS,
  NestedTooDeeply,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  invalid,
  isDigit,
} from "./json-cursor.ts";

/** The type of a JSON value, given by its first character. */
export type JsonKind = "object" | "array" | "string" | "number" | "boolean" | "null";

/** An opaque member: validated as JSON, otherwise unchanged. */
export class RawJson {
  readonly kind: JsonKind;
  /** The text as the caller wrote it, without the white space around it. */
  readonly text: string;

  /** The allowed depth, present only if the text exceeds it; the surrounding schema then rejects it. */
  readonly exceededDepth: number | undefined;

  constructor(kind: JsonKind, text: string, exceededDepth?: number) {
    this.kind = kind;
    this.text = text;
    this.exceededDepth = exceededDepth;
  }
}

/** The limits of a parser. */
export interface StrictJsonOptions {
  /** Maximum nesting depth of objects and arrays outside opaque members; `{}` is 1. */
  readonly maxDepth: number;
  /**
   * JSON pointers of the opaque members, each with its maximum nesting depth. A segment `*` matches any index or name.
   * A member that nests deeper, up to 1,000, is returned with `exceededDepth`.
   */
  readonly opaque?: Readonly<Record<string, number>>;
}

/** The opaque pointers as a tree, which the reader descends in parallel with the body. */
interface OpaqueNode {
  opaqueDepth: number | null;
  readonly children: Map<string, OpaqueNode>;
}

/** With the `u` flag a surrogate pair is one character outside this range, so only lone surrogates match. */
const LONE_SURROGATE = /[\ud800-\udfff]/u;
const BYTE_ORDER_MARK = Buffer.from("\ufeff");
/** Maximum depth to which a rejected member is still parsed. */
const WALKED_DEPTH_MAX = 1_000;
const KINDS = new Map<number, JsonKind>([
  [OPEN_BRACE, "object"],
  [OPEN_BRACKET, "array"],
  [QUOTE, "string"],
  [0x74, "boolean"],
  [0x66, "boolean"],
  [0x6e, "null"],
]);

class Reader extends JsonCursor {
  /** Reads the whole text, which must be a single value. */
  readDocument(depth: number, node: OpaqueNode | undefined): unknown {
    this.skipSpace();
    const value = this.readValue(depth, node);
    this.skipSpace();
    if (this.at < this.bytes.length) {
      throw this.unexpected();
    }
    return value;
  }

  private readValue(depth: number, node: OpaqueNode | undefined): unknown {
    if (node !== undefined && node.opaqueDepth !== null) {
      return this.readRaw(node.opaqueDepth);
    }
    const byte = this.peek();
    if (byte === QUOTE) {
      return this.readString();
    }
    if (byte === OPEN_BRACE) {
      return this.readObject(depth, node);
    }
    if (byte === OPEN_BRACKET) {
      return this.readArray(depth, node);
    }
    if (byte === MINUS || isDigit(byte)) {
      return this.readNumber();
    }
    return this.skipLiteral();
  }

  private readRaw(depth: number): RawJson {
    const start = this.at;
    const kind = KINDS.get(this.peek()) ?? "number";
    try {
      this.skipValue(depth);
      return new RawJson(kind, this.slice(start));
    } catch (error) {
      if (!(error instanceof NestedTooDeeply)) {
        throw error;
      }
      // Find the end of the value, so that one item of a batch does not reject the others.
      this.at = start;
      this.skipValue(WALKED_DEPTH_MAX);
      return new RawJson(kind, this.slice(start), depth);
    }
  }

  private readObject(depth: number, node: OpaqueNode | undefined): Record<string, unknown> {
    const object: Record<string, unknown> = {};
    const any = node?.children.get("*");
    this.enter(depth);
    if (this.leave(CLOSE_BRACE)) {
      return object;
    }
    for (;;) {
      const start = this.at;
      if (this.peek() !== QUOTE) {
        throw this.unexpected();
      }
      const name = this.readString();
      if (name === "__proto__") {
        throw invalid('the member name "__proto__" is not allowed', start);
      }
      if (Object.hasOwn(object, name)) {
        throw invalid(`the member ${JSON.stringify(name.slice(0, 64))} is repeated`, start);
      }
      this.expect(COLON);
      object[name] = this.readValue(depth - 1, node?.children.get(name) ?? any);
      if (!this.next(CLOSE_BRACE)) {
        return object;
      }
    }
  }

  private readArray(depth: number, node: OpaqueNode | undefined): unknown[] {
    const array: unknown[] = [];
    const any = node?.children.get("*");
    this.enter(depth);
    if (this.leave(CLOSE_BRACKET)) {
      return array;
    }
    do {
      array.push(this.readValue(depth - 1, any));
    } while (this.next(CLOSE_BRACKET));
    return array;
  }

  private readNumber(): number {
    const start = this.at;
    this.skipNumber();
    const text = this.slice(start);
    const number = Number(text);
    if (!Number.isFinite(number)) {
      throw invalid("number out of range", start);
    }
    // A filter would compare with another number. The rules of members name integers that are too large.
    if (!isSameDouble(text, number) && !(Number.isInteger(number) && new Decimal(text).isInteger)) {
      throw invalid("number with more digits than a double has", start);
    }
    return number;
  }

  private readString(): string {
    const start = this.at;
    const escaped = this.skipString();
    if (!escaped) {
      return this.slice(start + 1, this.at - 1);
    }
    const text = JSON.parse(this.slice(start)) as string;
    if (text.includes("\0")) {
      throw invalid("U+0000 is not allowed", start);
    }
    if (LONE_SURROGATE.test(text)) {
      throw invalid("lone surrogate", start);
    }
    return text;
  }
}

function compile(opaque: Readonly<Record<string, number>>): OpaqueNode {
  const root: OpaqueNode = { opaqueDepth: null, children: new Map() };
  for (const [pointer, depth] of Object.entries(opaque)) {
    let node = root;
    for (const name of pointer.split("/").slice(1)) {
      const child = node.children.get(name) ?? { opaqueDepth: null, children: new Map() };
      node.children.set(name, child);
      node = child;
    }
    node.opaqueDepth = depth;
  }
  return root;
}

/**
 * Creates a parser of request bodies. It returns the same value as `JSON.parse`, with a {@link RawJson} for each opaque
 * member.
 *
 * The parser throws SignetError `INVALID_REQUEST` with the fault and its byte offset.
 */
export function createStrictJsonParser(options: StrictJsonOptions): (bytes: Uint8Array) => unknown {
  const opaque = options.opaque === undefined ? undefined : compile(options.opaque);
  return (bytes) => {
    if (!isUtf8(bytes)) {
      throw new SignetError("INVALID_REQUEST", { detail: "The body is not valid UTF-8." });
    }
    const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    // A parser may ignore it (RFC 8259 section 8.1), and editors of Windows write it.
    const buffer = all.indexOf(BYTE_ORDER_MARK) === 0 ? all.subarray(BYTE_ORDER_MARK.length) : all;
    return new Reader(buffer).readDocument(options.maxDepth, opaque);
  };
}
