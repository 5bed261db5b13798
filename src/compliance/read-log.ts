/** Reads the whole log in pages. */
import type { Pool, Queryable } from "#database/pool.ts";
import {
  checkpointsAfter,
  newestCheckpoint,
  readExtent,
  readLeafTiles,
  readLogRows,
  TILE_WIDTH,
} from "#database/repositories/compliance-tree.ts";
import type { LogItem } from "./log-items.ts";

const PAGE_TILES = 8;
const PAGE_ENTRIES = PAGE_TILES * TILE_WIDTH;
const PAGE_CHECKPOINTS = 1_000;

async function readPage(db: Pool, first: number, end: number): Promise<LogItem[]> {
  const [rows, tiles] = await Promise.all([
    readLogRows(db, { first, end: Math.min(end, first + PAGE_ENTRIES), limit: PAGE_ENTRIES }),
    readLeafTiles(db, first / TILE_WIDTH, PAGE_TILES),
  ]);
  const items: LogItem[] = [];
  let next = 0;
  for (const row of rows) {
    for (let tile = tiles[next]; tile !== undefined && tile.idx * TILE_WIDTH <= row.idx; tile = tiles[next]) {
      items.push({ kind: "tile", ...tile });
      next += 1;
    }
    const { idx, entry, leaf_hash, at, type, tenant_id } = row;
    items.push({ kind: "entry", idx, entry, leaf_hash, at, type, tenant_id });
  }
  return items;
}

async function* readCheckpoints(db: Queryable, newest: number): AsyncGenerator<readonly LogItem[]> {
  for (let after = 0; after < newest;) {
    const limit = Math.min(PAGE_CHECKPOINTS, newest - after);
    const rows = await checkpointsAfter(db, after, limit);
    yield rows.map((row) => ({ kind: "checkpoint", ...row }) as const);
    after = rows.at(-1)?.seq ?? newest;
  }
}

/** Yields pages of items in the order of {@link LogItem} (role signet_audit). Omits entries appended meanwhile. */
export async function* readLog(db: Pool): AsyncGenerator<readonly LogItem[]> {
  // Read before the head, so that no checkpoint covers more entries than follow.
  const newest = await newestCheckpoint(db);
  const head = await readExtent(db);
  yield [{ kind: "head", ...head }];
  yield* readCheckpoints(db, newest?.seq ?? 0);
  // The next page is read while the caller processes this one.
  let coming = readPage(db, 0, head.entries);
  for (let first = 0; first < head.entries; first += PAGE_ENTRIES) {
    const items = await coming;
    coming = readPage(db, first + PAGE_ENTRIES, head.entries);
    // If the caller stops reading, nobody else handles this rejection.
    coming.catch(() => undefined);
    yield items;
  }
  await coming;
  yield [{ kind: "end" }];
}
