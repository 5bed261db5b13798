/** The compliance log as a tree: head, tiles, checkpoints (migrations 0005 and 0011). */
import { copyOut } from "../copy-out.ts";
import type { Pool, Queryable } from "../pool.ts";

/** Hashes in a full tile. */
export const TILE_WIDTH = 256;
const HASH_BYTES = 32;

export interface HeadRow {
  readonly size: number;
  readonly root: Buffer;
}

/** Returns the head of a tree whose `size` entries are all committed, so that they can be read. */
export async function readHead(db: Queryable): Promise<HeadRow> {
  const { rows } = await db.query<HeadRow>("SELECT size, root FROM clog_head WHERE log_id = 1");
  return rows[0] as HeadRow;
}

function split(hashes: Buffer | null | undefined): Buffer[] {
  const bytes = hashes ?? Buffer.of();
  return Array.from({ length: bytes.length / HASH_BYTES }, (_value, index) =>
    bytes.subarray(index * HASH_BYTES, (index + 1) * HASH_BYTES),
  );
}

/** Returns the head, and the number of rows according to the largest index. */
export async function readExtent(db: Queryable): Promise<HeadRow & { readonly entries: number }> {
  const { rows } = await db.query<HeadRow & { entries: number }>(
    `SELECT size, root, (SELECT coalesce(max(idx) + 1, 0) FROM clog WHERE log_id = 1) AS entries
      FROM clog_head WHERE log_id = 1`,
  );
  return rows[0] ?? { size: 0, root: Buffer.of(), entries: 0 };
}

/** Returns the tiles of leaf hashes from number `first`, in order. */
export async function readLeafTiles(
  db: Queryable,
  first: number,
  count: number,
): Promise<{ readonly idx: number; readonly hashes: Buffer }[]> {
  const { rows } = await db.query<{ idx: number; hashes: Buffer }>(
    `SELECT idx, hashes FROM clog_tile WHERE log_id = 1 AND level = 0 AND idx >= $1 AND idx < $1 + $2::int ORDER BY idx`,
    [first, count],
  );
  return rows;
}

/** Returns the hashes of a full, stored tile. */
export async function readTile(db: Queryable, level: number, index: number): Promise<Buffer[]> {
  const { rows } = await db.query<{ hashes: Buffer }>(
    "SELECT hashes FROM clog_tile WHERE log_id = 1 AND level = $1 AND idx = $2",
    [level, index],
  );
  return split(rows[0]?.hashes);
}

/** Returns the roots of at most `count` stored tiles, starting with tile `first`. */
export async function readTileRoots(
  db: Queryable,
  { level, first, count }: { readonly level: number; readonly first: number; readonly count: number },
): Promise<Buffer[]> {
  const { rows } = await db.query<{ root: Buffer }>(
    "SELECT root FROM clog_tile WHERE log_id = 1 AND level = $1 AND idx >= $2 AND idx < $2 + $3::int ORDER BY idx",
    [level, first, count],
  );
  return rows.map(({ root }) => root);
}

/** Returns leaf hashes from the entry `first`, at most a tile's. */
export async function readLeafHashes(db: Queryable, first: number, count: number): Promise<Buffer[]> {
  const { rows } = await db.query<{ hashes: Buffer | null }>(
    "SELECT compliance_leaf_hashes($1, $2) AS hashes",
    [first, count],
  );
  return split(rows[0]?.hashes);
}

/** Returns how many tiles of a level are stored, without gaps. */
export async function countTiles(db: Queryable, level: number): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    "SELECT coalesce(max(idx) + 1, 0) AS count FROM clog_tile WHERE log_id = 1 AND level = $1",
    [level],
  );
  return rows[0]?.count ?? 0;
}

export interface Tile {
  readonly level: number;
  readonly index: number;
  /** {@link TILE_WIDTH} hashes. */
  readonly hashes: readonly Buffer[];
  readonly root: Buffer;
}

/** Stores a tile unless it exists (role signet_worker). */
export async function insertTile(db: Queryable, { level, index, hashes, root }: Tile): Promise<void> {
  await db.query(
    "INSERT INTO clog_tile (log_id, level, idx, hashes, root) VALUES (1, $1, $2, $3, $4) ON CONFLICT DO NOTHING",
    [level, index, Buffer.concat(hashes), root],
  );
}

export interface CheckpointRow {
  /** Number, from 1, without gaps. */
  readonly seq: number;
  readonly size: number;
  readonly root: Buffer;
  readonly note: string;
  readonly signed_at: Date;
}

/** A checkpoint with the key that its row claims. */
export interface SignedCheckpointRow extends CheckpointRow {
  /** `name+id+key`; null if unknown. Not trustworthy: everyone with write access can store another one. */
  readonly verifier_key: string | null;
}

const CHECKPOINT = "seq, size, root, note, signed_at";

export async function newestCheckpoint(db: Queryable): Promise<SignedCheckpointRow | undefined> {
  const { rows } = await db.query<SignedCheckpointRow>(
    `SELECT ${CHECKPOINT}, verifier_key FROM clog_checkpoint WHERE log_id = 1 ORDER BY seq DESC LIMIT 1`,
  );
  return rows[0];
}

/** Returns the checkpoints after number `after`, oldest first. */
export async function checkpointsAfter(
  db: Queryable,
  after: number,
  limit: number,
): Promise<CheckpointRow[]> {
  const { rows } = await db.query<CheckpointRow>(
    `SELECT ${CHECKPOINT} FROM clog_checkpoint WHERE log_id = 1 AND seq > $1 ORDER BY seq LIMIT $2`,
    [after, limit],
  );
  return rows;
}

/** Stores a checkpoint unless its number exists (role signet_worker). */
export async function insertCheckpoint(db: Queryable, row: SignedCheckpointRow): Promise<void> {
  await db.query(
    `INSERT INTO clog_checkpoint (log_id, ${CHECKPOINT}, verifier_key) VALUES (1, $1, $2, $3, $4, $5, $6)
      ON CONFLICT DO NOTHING`,
    [row.seq, row.size, row.root, row.note, row.signed_at, row.verifier_key],
  );
}

/** An entry with the columns that repeat its members. */
export interface LogRow {
  readonly idx: number;
  readonly entry: Buffer;
  readonly leaf_hash: Buffer;
  /** In PostgreSQL's UTC format, for instance `2025-11-20 14:46:40.12+00`. */
  readonly at: string;
  readonly type: string;
  readonly tenant_id: string | null;
}

/** Parses the rows of {@link copyOut}. */
class CopiedRows {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  next(): LogRow | undefined {
    const fields = this.#bytes.readInt16BE(this.#at);
    if (fields < 0) {
      return undefined;
    }
    this.#at += 2;
    const place = this.#field();
    return {
      idx: place.readInt32BE(0) * 2 ** 32 + place.readUInt32BE(4),
      entry: this.#field(),
      leaf_hash: this.#field(),
      at: this.#text() ?? "",
      type: this.#text() ?? "",
      tenant_id: this.#text(),
    };
  }

  /** Reads the length of the next field, which then starts at `#at`; negative for NULL. */
  #open(): number {
    const length = this.#bytes.readInt32BE(this.#at);
    this.#at += 4;
    return length;
  }

  #field(): Buffer {
    const length = this.#open();
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  #text(): string | null {
    const length = this.#open();
    if (length < 0) {
      return null;
    }
    this.#at += length;
    return this.#bytes.toString("utf8", this.#at - length, this.#at);
  }
}

/** Returns entries from `first` up to but excluding `end`, by index (role signet_audit). */
export async function readLogRows(
  pool: Pool,
  { first, end, limit }: { readonly first: number; readonly end: number; readonly limit: number },
): Promise<LogRow[]> {
  // The numbers become part of the statement's text.
  const [from, below, most] = [first, end, limit].map((value) => BigInt(value).toString());
  // The driver would need more time for objects of columns than a verifier has for the whole entry.
  const copied = new CopiedRows(
    await copyOut(
      pool,
      `SELECT idx, entry, leaf_hash, at::text, type, tenant_id FROM clog
        WHERE log_id = 1 AND idx >= ${from} AND idx < ${below} ORDER BY idx LIMIT ${most}`,
    ),
  );
  const rows: LogRow[] = [];
  for (let row = copied.next(); row !== undefined; row = copied.next()) {
    rows.push(row);
  }
  return rows;
}
