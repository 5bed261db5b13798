/** Items of the whole log, and their encoding as lines of an export (NDJSON). */
import type { CheckpointRow, LogRow } from "#database/repositories/compliance-tree.ts";

/** In this order: the head, the checkpoints, tiles each followed by its entries, and the end. */
export type LogItem =
  | { readonly kind: "head"; readonly size: number; readonly root: Buffer; readonly entries: number }
  | ({ readonly kind: "checkpoint" } & CheckpointRow)
  /** 256 leaf hashes. */
  | { readonly kind: "tile"; readonly idx: number; readonly hashes: Buffer }
  | ({ readonly kind: "entry" } & LogRow)
  /** Without this item, the export is incomplete. */
  | { readonly kind: "end" };

const base64 = (bytes: Buffer): string => bytes.toString("base64");

/** Encodes an item as a line, without the line end. */
export function encodeItem(item: LogItem): string {
  switch (item.kind) {
    case "head":
    case "checkpoint":
      return JSON.stringify({ ...item, root: base64(item.root) });
    case "tile":
      return JSON.stringify({ ...item, hashes: base64(item.hashes) });
    case "entry":
      return JSON.stringify({ ...item, entry: base64(item.entry), leaf_hash: base64(item.leaf_hash) });
    case "end":
    default:
      return JSON.stringify(item);
  }
}

/** Decodes a line. @throws SyntaxError, TypeError for anything but a line of an export */
export function decodeItem(line: string): LogItem {
  const item = JSON.parse(line) as Record<string, unknown> & { readonly kind: LogItem["kind"] };
  const bytes = (name: string): Buffer => {
    const text = item[name];
    if (typeof text !== "string") {
      throw new TypeError(`${name} is missing`);
    }
    return Buffer.from(text, "base64");
  };
  switch (item.kind) {
    case "head":
      return { ...item, root: bytes("root") } as unknown as LogItem;
    case "checkpoint":
      return {
        ...item,
        root: bytes("root"),
        signed_at: new Date(String(item["signed_at"])),
      } as unknown as LogItem;
    case "tile":
      return { ...item, hashes: bytes("hashes") } as unknown as LogItem;
    case "entry":
      return { ...item, entry: bytes("entry"), leaf_hash: bytes("leaf_hash") } as unknown as LogItem;
    case "end":
      return { kind: "end" };
    default:
      throw new TypeError("has an unknown kind");
  }
}
