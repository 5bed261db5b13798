/** Reads what proofs need of the log's tree: a few tiles, whatever the size of the log. */
import type { Queryable } from "../database/pool.ts";
import {
  countTiles,
  insertTile,
  readLeafHashes,
  readTile,
  readTileRoots,
  TILE_WIDTH,
} from "../database/repositories/compliance-tree.ts";
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

/** Tiles that are missing or short: the tables have been interfered with. */
export class TreeUnreadableError extends Error {
  override readonly name = "TreeUnreadableError";
}

/** A tree of `size` entries, to be read with the statements of one transaction or pool. */
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

/** The root over a power of two of hashes. */
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

/** The proof that the entry `index` stands in the tree of `size` entries, which the log has reached. */
export async function readInclusionProof(db: Queryable, index: number, size: number): Promise<Buffer[]> {
  return await hashAll(new TreeReader(db, size), inclusionRanges(index, size));
}

/** The proof that the tree of `to` entries, which the log has reached, extends the tree of `from` entries. */
export async function readConsistencyProof(db: Queryable, from: number, to: number): Promise<Buffer[]> {
  return await hashAll(new TreeReader(db, to), consistencyRanges(from, to));
}

/** The tree of `size` entries, to be appended to. */
export async function readFrontier(db: Queryable, size: number): Promise<Frontier> {
  return { size, peaks: await new TreeReader(db, size).subtrees(completeSubtrees(0, size)) };
}

/** Stores the full tiles of a tree of `size` entries that are not stored yet (role signet_worker). */
export async function storeTiles(db: Queryable, size: number): Promise<void> {
  for (let level = 0, width = TILE_WIDTH; width <= size; level += 1, width *= TILE_WIDTH) {
    const full = Math.floor(size / width);
    for (let index = await countTiles(db, level); index < full; index += 1) {
      const hashes = await readHashes(db, { level, first: index * TILE_WIDTH, count: TILE_WIDTH });
      if (hashes.length !== TILE_WIDTH) {
        throw new TreeUnreadableError(`tile ${level}/${index} cannot be made: hashes are missing`);
      }
      await insertTile(db, { level, index, hashes, root: fullTreeHash(hashes) });
    }
  }
}
