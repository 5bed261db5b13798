/** Regions, and the cells that serve them (decision 35). */
import { SignetError } from "./errors.ts";

/** Pattern of a region, such as `eu` or `eu-west-1` (contract 9.4). Principals and tenants may also be `global`. */
export const REGION_PATTERN = "[a-z]{2}(-[a-z]+-[0-9])?";
export const REGION = new RegExp(`^${REGION_PATTERN}$`);
/** The region of principals and tenants without region affinity. */
export const EVERY_REGION = "global";

/** An installation with databases and workers of its own, for the events and deliveries of a region. */
export interface Cell {
  readonly region: string;
  /** Public base URL of its API. */
  readonly url: string;
}

/** All cells, as one of them sees them. */
export interface Cells {
  /** The cell of identities, revocations and the compliance log. It also serves regions without a cell. */
  readonly home: Cell;
  /** The cell that this process belongs to. */
  readonly own: Cell;
  readonly all: readonly Cell[];
}

/** Whether the cell is another than the home cell. */
export function isAway(given: Cells | undefined): given is Cells {
  return given !== undefined && given.own.region !== given.home.region;
}

/** Returns the cell of a region: its own, else that of its first part (`eu` for `eu-west-1`), else the home cell. */
export function cellOf({ home, all }: Cells, region: string): Cell {
  const named = (name: string): Cell | undefined => all.find((cell) => cell.region === name);
  return named(region) ?? named(region.slice(0, 2)) ?? home;
}

/**
 * Creates the 421 for a request that another cell serves (RFC 9110 section 15.5.20). `base_url` names the cell: a client
 * sends the request again there. It is no redirect, because clients drop the token or repeat the body when they follow
 * one to another host.
 */
export function misdirected({ region, url }: Cell, why: string): SignetError {
  return new SignetError("MISDIRECTED_REQUEST", {
    detail: `${why} Send the request to ${url}.`,
    extensions: { region, base_url: url },
  });
}

/**
 * Checks that this cell serves a caller's data. A token without region affinity belongs where its tenant does.
 *
 * @param tenantRegion undefined if it is not known here
 * @throws SignetError `MISDIRECTED_REQUEST` with the right cell
 */
export function requireOwnCell(cells: Cells, tokenRegion: string, tenantRegion: string | undefined): void {
  const region = tokenRegion === EVERY_REGION ? (tenantRegion ?? EVERY_REGION) : tokenRegion;
  const cell = region === EVERY_REGION ? cells.own : cellOf(cells, region);
  if (cell.region !== cells.own.region) {
    const whose = tokenRegion === EVERY_REGION ? "The tenant" : "The access token";
    throw misdirected(
      cell,
      `${whose} belongs to region ${region}, and this is the cell of ${cells.own.region}.`,
    );
  }
}
