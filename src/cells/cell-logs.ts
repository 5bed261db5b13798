/** The home cell's side of the other cells' compliance logs (decision 35): it appends what they have sent. */
import { type SentEntry, homeEntry, readSentEntry } from "#compliance/cell-entry.ts";
import type { Pool } from "#database/pool.ts";
import {
  findTenantPlaces,
  longestWait,
  readWaitingEntries,
  takeWaitingEntries,
  type WaitingEntry,
} from "#database/repositories/cells.ts";
import { appendManyEntries, type EntryBytes } from "#database/repositories/compliance-entries.ts";
import { transaction } from "#database/transaction.ts";
import { cellOf, type Cells, EVERY_REGION } from "#domain/regions.ts";
import { metrics } from "#observability/metrics.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";

const EVERY_MS = 1_000;
/** While they are appended, the head of the log is locked. */
const PAGE = 100;

export interface CellLogOptions {
  readonly cells: Cells;
  /** Role signet_operator. */
  readonly pool: Pool;
}

interface ReadEntry {
  readonly place: number;
  readonly entry: SentEntry;
}

/** Why a cell's log does not go on. */
class RefusedEntry extends Error {
  override readonly name = "RefusedEntry";
}

/** Reads entries up to the first that the home cell does not take. */
function readUntilRefused(
  cell: string,
  waiting: readonly WaitingEntry[],
): { readonly entries: readonly ReadEntry[]; readonly refused: RefusedEntry | undefined } {
  const entries: ReadEntry[] = [];
  for (const { place, sent } of waiting) {
    try {
      const entry = readSentEntry(sent);
      // Shows whether it can be written.
      homeEntry(entry, { cell, place, owns: true });
      entries.push({ place, entry });
    } catch (error) {
      const refused = new RefusedEntry(`entry ${place} of the log of cell ${cell} is refused`, {
        cause: error,
      });
      return { entries, refused };
    }
  }
  return { entries, refused: undefined };
}

/** Builds the entries for the log. Only tenants that the cell serves get them. */
async function build(
  { cells, pool }: CellLogOptions,
  cell: string,
  entries: readonly ReadEntry[],
): Promise<Map<number, EntryBytes>> {
  const ids = new Set(entries.flatMap(({ entry: { tenant } }) => tenant ?? []));
  const places = new Map((await findTenantPlaces(pool, [...ids])).map((place) => [place.id, place]));
  const serves = (region: string): boolean =>
    region === EVERY_REGION || cellOf(cells, region).region === cell;
  const owns = ({ tenant, type, actor }: SentEntry): boolean => {
    const of = tenant === null ? undefined : places.get(tenant);
    // Every cell erases a tenant that the home cell has erased.
    const erases = of?.erased === true && type === "tenant.erased" && actor === "system:cell";
    return erases || of?.regions.some(serves) === true;
  };
  return new Map(
    entries.map(({ place, entry }) => [place, homeEntry(entry, { cell, place, owns: owns(entry) })]),
  );
}

/** Appends the next entries of a cell. Returns whether there were any. @throws RefusedEntry */
async function appendNext(options: CellLogOptions, cell: string): Promise<boolean> {
  const { pool } = options;
  const { entries, refused } = readUntilRefused(cell, await readWaitingEntries(pool, cell, PAGE));
  const [first] = entries;
  const last = entries.at(-1);
  if (first !== undefined && last !== undefined) {
    const built = await build(options, cell, entries);
    await transaction(pool, async (db) => {
      // Another worker may have appended some of them.
      const taken = await takeWaitingEntries(db, cell, { first: first.place, last: last.place });
      await appendManyEntries(
        db,
        [...built].flatMap(([place, bytes]) => (taken.has(place) ? [bytes] : [])),
      );
    });
  }
  if (refused !== undefined) {
    throw refused;
  }
  return first !== undefined;
}

/** Returns the job of the home cell's workers that appends the logs of the other cells. Several workers may run it at once. */
export function cellLogs(options: CellLogOptions): UpkeepJob {
  const others = options.cells.all.filter(({ region }) => region !== options.cells.home.region);
  return {
    name: "logs of the cells",
    everyMs: EVERY_MS,
    run: async () => {
      const problems: unknown[] = [];
      for (const { region } of others) {
        try {
          while (await appendNext(options, region)) {
            // The next page.
          }
        } catch (error) {
          // The other cells' logs go on.
          problems.push(error);
        }
      }
      metrics.cellLogLag.set(await longestWait(options.pool));
      if (problems.length > 0) {
        throw problems[0];
      }
    },
  };
}
