/** Reads the hashes for proofs from the log's tree: a few tiles, whatever its size. */
import type { Queryable } from "#database/pool.ts";
import {
  countTiles,
  insertTile,
  readLeafHashes,
  readTile,
  readTileRoots,
  TILE_WIDTH,
} from "#database/repositories/compliance-tree.ts";
import {
  completeSubtrees,
  consistencyRanges,
  type EntryRange,
  type Frontier,
  inclusionRanges,
  rootHash,
  type Subtree,
} from "./merkle.ts";

/** A tile covers 2^8 hashes. */
const TILE_LEVELS = 8;

/** Tiles are missing or incomplete. Someone has tampered with the tables. */
export class TreeUnreadableError extends Error {
  override readonly name = "TreeUnreadableError";
}

/** Reads from a tree of `size` entries, within one transaction or from a pool. */
class TreeReader {
  readonly #db: Queryable;
  readonly #size: number;
  readonly #tiles = new Map<string, Promise<readonly Buffer[]>>();

  constructor(db: Queryable, size: number) {
    this.#db = db;
    this.#size = size;
  }

  async hash({ start, end }: EntryRange): Promise<Buffer> {
    return rootHash(await this.subtrees(completeSubtrees(start, end)));
  }

  async subtrees(subtrees: readonly Subtree[]): Promise<Buffer[]> {
    const hashes: Buffer[] = [];
    for (const subtree of subtrees) {
      hashes.push(await this.#subtree(subtree));
    }
    return hashes;
  }

  async #subtree({ level, index }: Subtree): Promise<Buffer> {
    const tileLevel = Math.floor(level / TILE_LEVELS);
    const span = 2 ** (level % TILE_LEVELS);
    const first = index * span;
    const tileIndex = Math.floor(first / TILE_WIDTH);
    const hashes = await this.#tile(tileLevel, tileIndex);
    const offset = first - tileIndex * TILE_WIDTH;
    return fullTreeHash(hashes.slice(offset, offset + span));
  }

  async #tile(level: number, index: number): Promise<readonly Buffer[]> {
    const name = `${level}/${index}`;
    const read = this.#tiles.get(name) ?? this.#read(level, index);
    this.#tiles.set(name, read);
    return await read;
  }

  async #read(level: number, index: number): Promise<readonly Buffer[]> {
    const first = index * TILE_WIDTH;
    const count = Math.min(TILE_WIDTH, Math.floor(this.#size / TILE_WIDTH ** level) - first);
    const stored = count === TILE_WIDTH ? await readTile(this.#db, level, index) : [];
    const hashes = stored.length === count ? stored : await readHashes(this.#db, { level, first, count });
    if (hashes.length !== count) {
      throw new TreeUnreadableError(`tile ${level}/${index} has ${hashes.length} of ${count} hashes`);
    }
    return hashes;
  }
}

async function readHashes(
  db: Queryable,
  { level, first, count }: { readonly level: number; readonly first: number; readonly count: number },
): Promise<Buffer[]> {
  return level === 0
    ? await readLeafHashes(db, first, count)
    : await readTileRoots(db, { level: level - 1, first, count });
}

/** Returns the root over hashes whose number is a power of two. */
function fullTreeHash(hashes: readonly Buffer[]): Buffer {
  const [only] = hashes;
  if (hashes.length === 1 && only !== undefined) {
    return only;
  }
  const middle = hashes.length / 2;
  return rootHash([fullTreeHash(hashes.slice(0, middle)), fullTreeHash(hashes.slice(middle))]);
}

async function hashAll(reader: TreeReader, ranges: readonly EntryRange[]): Promise<Buffer[]> {
  const hashes: Buffer[] = [];
  for (const range of ranges) {
    hashes.push(await reader.hash(range));
  }
  return hashes;
}

/** Returns the proof that the tree of `size` entries, at most the log's size, contains the entry `index`. */
export async function readInclusionProof(db: Queryable, index: number, size: number): Promise<Buffer[]> {
  return await hashAll(new TreeReader(db, size), inclusionRanges(index, size));
}

/** Returns the proof that the tree of `to` entries, at most the log's size, extends the tree of `from` entries. */
export async function readConsistencyProof(db: Queryable, from: number, to: number): Promise<Buffer[]> {
  return await hashAll(new TreeReader(db, to), consistencyRanges(from, to));
}

/** Reads the tree of `size` entries for appending. */
export async function readFrontier(db: Queryable, size: number): Promise<Frontier> {
  return { size, peaks: await new TreeReader(db, size).subtrees(completeSubtrees(0, size)) };
}

/** Stores the full tiles of a tree of `size` entries that are missing (role signet_worker). */
export async function storeTiles(db: Queryable, size: number): Promise<void> {
  for (let level = 0, width = TILE_WIDTH; width <= size; level += 1, width *= TILE_WIDTH) {
    const full = Math.floor(size / width);
    for (let index = await countTiles(db, level); index < full; index += 1) {
      const hashes = await readHashes(db, { level, first: index * TILE_WIDTH, count: TILE_WIDTH });
      if (hashes.length !== TILE_WIDTH) {
        throw new TreeUnreadableError(`tile ${level}/${index} cannot be created: hashes are missing`);
      }
      await insertTile(db, { level, index, hashes, root: fullTreeHash(hashes) });
    }
  }
}
