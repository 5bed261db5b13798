/** Settings of cells: regions with databases, Temporal and workers of their own (decision 35). */
import { resolve } from "node:path";
import { type Cell, type Cells, isAway } from "#domain/regions.ts";
import { postgresUrl } from "./postgres-url.ts";
import { list, type Parser, region, setting, url } from "./setting.ts";

const CELLS_MAX = 16;

const cellUrl = url("https:", "http:");

const cells: Parser<readonly Cell[]> = (value) => {
  const parsed = list(value).map((item) => {
    const [name = "", ...rest] = item.split("=");
    return { region: region(name), url: cellUrl(rest.join("=")) };
  });
  if (parsed.length < 2 || parsed.length > CELLS_MAX) {
    throw new Error(
      `must be 2 to ${CELLS_MAX} cells such as eu=https://api.eu.example.com, separated by commas`,
    );
  }
  if (new Set(parsed.flatMap((cell) => [cell.region, cell.url])).size < parsed.length * 2) {
    throw new Error("must name each region and each URL once");
  }
  return parsed;
};

export const CELL_SETTINGS = {
  cells: setting(
    "SIGNET_CELLS",
    cells,
    undefined,
    "api, worker and edge: the regions with a cell of their own and the base URLs of their APIs, `eu=https://api.eu.example.com,us=https://api.us.example.com`. The first is the home cell of identities, revocations and the compliance log, and serves all other regions; its URL is SIGNET_PUBLIC_URL. The same in every cell",
  ),
  cell: setting("SIGNET_CELL", region, undefined, "the region of this cell, one of those in SIGNET_CELLS"),
  homeDatabaseUrl: setting(
    "SIGNET_HOME_DATABASE_URL",
    postgresUrl,
    undefined,
    "worker and api of a cell that is not the home cell: its login at PostgreSQL of the home cell, from which the worker reads tenants and to which it sends the compliance log. In the home cell, `signet migrate` creates that login if it is set",
  ),
  homeDatabaseCell: setting(
    "SIGNET_HOME_DATABASE_CELL",
    region,
    undefined,
    "`signet migrate` in the home cell: the cell whose login is in SIGNET_HOME_DATABASE_URL. Only that login may send the cell's log. By default the other cell, if SIGNET_CELLS has two",
  ),
  homeDatabaseUrlFile: setting(
    "SIGNET_HOME_DATABASE_URL_FILE",
    resolve,
    undefined,
    "file with its value, read as SIGNET_DATABASE_URL_FILE",
  ),
} as const;

/** The values that are checked together. */
export interface CellValues {
  readonly cells?: readonly Cell[] | undefined;
  readonly cell?: string | undefined;
  readonly homeDatabaseUrl?: string | undefined;
  readonly homeDatabaseCell?: string | undefined;
  readonly publicUrl?: string | undefined;
}

/** Returns the cells as this process sees them; undefined without cells. */
export function cellsOf({ cells: all, cell }: CellValues): Cells | undefined {
  const [home] = all ?? [];
  const own = all?.find((candidate) => candidate.region === cell);
  return all === undefined || home === undefined || own === undefined ? undefined : { all, home, own };
}

/** Returns the cell whose login SIGNET_HOME_DATABASE_URL has, as the home cell sees it; undefined if that is unknown. */
export function cellOfLogin(values: CellValues): string | undefined {
  const others = (values.cells ?? []).slice(1);
  return values.homeDatabaseCell ?? (others.length === 1 ? others[0]?.region : undefined);
}

/** Returns the problems of the settings of cells. */
export function cellProblems(
  values: CellValues,
  asks: "service" | "edge" | "hub",
  development: boolean,
): string[] {
  const { cells: all, cell, homeDatabaseUrl, homeDatabaseCell, publicUrl } = values;
  if (asks === "hub" || (all === undefined && cell === undefined)) {
    return [];
  }
  const given = cellsOf(values);
  if (given === undefined) {
    return ["SIGNET_CELL must be one of the regions in SIGNET_CELLS; set both or neither"];
  }
  const problems: string[] = [];
  if (publicUrl !== given.home.url) {
    problems.push("SIGNET_PUBLIC_URL must be the URL of the home cell, the first in SIGNET_CELLS");
  }
  if (!development && given.all.some((each) => each.url.startsWith("http:"))) {
    problems.push("SIGNET_CELLS must have https URLs in production");
  }
  if (
    homeDatabaseCell !== undefined &&
    !given.all.slice(1).some(({ region: name }) => name === homeDatabaseCell)
  ) {
    problems.push("SIGNET_HOME_DATABASE_CELL must be one of the regions in SIGNET_CELLS after the first");
  }
  if (asks === "service" && isAway(given) && homeDatabaseUrl === undefined) {
    problems.push("SIGNET_HOME_DATABASE_URL must be set in a cell that is not the home cell");
  }
  return problems;
}
