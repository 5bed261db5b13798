/** What cells exchange with the home cell (decision 35, migrations 0054, 0056 and 0063). */
import { EVERY_REGION } from "#domain/regions.ts";
import type { Pool, Queryable } from "../pool.ts";
import { transaction } from "../transaction.ts";
import type { EntryBytes } from "./compliance-entries.ts";
import { postponeMoves } from "./endpoints/endpoint-secrets.ts";
import { lockTenantHold, type TenantRow } from "./tenants.ts";

/** A tenant as the home cell knows it. Data keys stay in their cells. */
export interface HomeTenant extends Pick<
  TenantRow,
  "id" | "name" | "region" | "state" | "platform" | "held_at" | "created_at"
> {
  readonly limits: object;
  readonly portal_brand: object;
}

export interface HomeTenantsPage {
  readonly tenants: readonly HomeTenant[];
  /** `since` of the pass after the one that this page began. */
  readonly upto: string;
}

/**
 * Returns the next tenants that have changed, by id (role signet_cell, at the home cell).
 *
 * @param since what an earlier pass returned; null for all tenants
 */
export async function readHomeTenants(
  home: Queryable,
  { since, after, limit }: { readonly since: string | null; readonly after: string; readonly limit: number },
): Promise<HomeTenantsPage> {
  const { rows } = await home.query<{ [Name in keyof HomeTenant]: HomeTenant[Name] } & { upto: string }>(
    "SELECT *, upto::text FROM tenants_for_cells($1::xid8, $2, $3)",
    [since, after, limit],
  );
  const upto = rows[0]?.upto ?? "0";
  return { tenants: rows.filter(({ id }) => (id as string | null) !== null), upto };
}

/** Returns those of these tenants that the cell knows (role signet_operator). */
export async function findKnownTenants(
  db: Queryable,
  ids: readonly string[],
): Promise<Map<string, HomeTenant>> {
  const { rows } = await db.query<HomeTenant>(
    `SELECT id, name, region, state, platform, held_at, limits, portal_brand, created_at
      FROM tenants WHERE id = ANY ($1::text[])`,
    [ids],
  );
  return new Map(rows.map((row) => [row.id, row]));
}

/** Adds a tenant of the home cell with a data key of this cell's own (role signet_operator). */
export async function insertHomeTenant(db: Queryable, tenant: HomeTenant, dataKey: string): Promise<void> {
  const { id, name, region, state, platform, held_at, limits, portal_brand, created_at } = tenant;
  await db.query(
    `INSERT INTO tenants (id, name, region, state, platform, held_at, limits, portal_brand, created_at, data_key)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (id) DO NOTHING`,
    [
      id,
      name,
      region,
      state,
      platform,
      held_at,
      JSON.stringify(limits),
      JSON.stringify(portal_brand),
      created_at,
      dataKey,
    ],
  );
}

/**
 * Makes a tenant what the home cell says (role signet_operator). Rotations that a hold has paused go on for their full
 * time.
 */
export async function updateHomeTenant(pool: Pool, tenant: HomeTenant, now: Date): Promise<void> {
  const { id, name, region, state, platform, held_at, limits, portal_brand } = tenant;
  await transaction(pool, async (db) => {
    const heldAt = await lockTenantHold(db, id);
    await db.query(
      `UPDATE tenants SET name = $2, region = $3, state = $4, platform = $5, held_at = $6, limits = $7, portal_brand = $8
        WHERE id = $1 AND state <> 'ERASED'`,
      [id, name, region, state, platform, held_at, JSON.stringify(limits), JSON.stringify(portal_brand)],
    );
    if (heldAt !== null && held_at === null) {
      await postponeMoves(db, id, { heldAt, releasedAt: now });
    }
  });
}

/** A revocation of the home cell. */
export interface HomeRevocation {
  /** Its number in the sequence of all revocations. */
  readonly seq: number;
  readonly kind: string;
  readonly tenant_id: string | null;
  /** Id of a credential, or what else is revoked. */
  readonly target: string;
  readonly reason: string | null;
  readonly actor: string;
  readonly at: Date;
}

/**
 * Returns the next revocations, and the sequence's last number (role signet_cell, at the home cell).
 *
 * @param after number of the last known one; null for the sequence's last number only
 */
export async function readHomeRevocations(
  home: Queryable,
  after: number | null,
  limit: number,
): Promise<{ readonly clock: number; readonly revocations: readonly HomeRevocation[] }> {
  const { rows } = await home.query<
    { [Name in keyof HomeRevocation]: HomeRevocation[Name] } & { clock: number }
  >("SELECT * FROM revocations_for_cells($1, $2)", [after, limit]);
  return {
    clock: rows[0]?.clock ?? 0,
    revocations: rows.filter(({ seq }) => (seq as number | null) !== null),
  };
}

/** A credential of the home cell that has ended by plan. */
export interface HomeEnd {
  /** Index of its entry in the home cell's compliance log. */
  readonly end_index: number;
  readonly tenant_id: string;
  /** Id of the credential. */
  readonly target: string;
  readonly at: Date;
}

/**
 * Returns the next planned ends of credentials, and the newest index, -1 without any (role signet_cell, at the home cell).
 *
 * @param after index of the last known one; null for the newest index only
 */
export async function readHomeEnds(
  home: Queryable,
  after: number | null,
  limit: number,
): Promise<{ readonly newest: number; readonly ends: readonly HomeEnd[] }> {
  const { rows } = await home.query<{ [Name in keyof HomeEnd]: HomeEnd[Name] } & { newest: number }>(
    "SELECT * FROM credential_ends_for_cells($1, $2)",
    [after, limit],
  );
  return {
    newest: rows[0]?.newest ?? -1,
    ends: rows.filter(({ end_index: index }) => (index as number | null) !== null),
  };
}

/** Returns the index of the last end that this cell has applied; null at first (role signet_operator). */
export async function readEndPosition(db: Queryable): Promise<number | null> {
  const { rows } = await db.query<{ end_index: number | null }>(
    "SELECT end_index FROM home_position WHERE id = 1",
  );
  return rows[0]?.end_index ?? null;
}

/** Replaces that index (role signet_operator). @returns false if it is no longer `from`, or this cell has just begun */
export async function moveEndPosition(db: Queryable, from: number | null, to: number): Promise<boolean> {
  const { rowCount } = await db.query(
    "UPDATE home_position SET end_index = $2 WHERE id = 1 AND end_index IS NOT DISTINCT FROM $1",
    [from, to],
  );
  return rowCount === 1;
}

/** How far this cell has come in the home cell's revocations. */
export interface HomePosition {
  /** Number of the last one that it has applied. */
  readonly seq: number;
  /** Whether that was said a moment ago. */
  readonly fresh: boolean;
}

/** Returns how far this cell has come; undefined at first (role signet_operator). */
export async function readHomePosition(db: Queryable): Promise<HomePosition | undefined> {
  const { rows } = await db.query<HomePosition>(
    `SELECT seq, coalesce(
          at > clock_timestamp() - interval '5 seconds' AND at <= clock_timestamp(), false) AS fresh
       FROM home_position WHERE id = 1`,
  );
  return rows[0];
}

/** Replaces the number, and says that it is the newest now (role signet_operator). @returns false if it is no longer `from` */
export async function moveHomePosition(
  db: Queryable,
  from: number | undefined,
  to: number,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `INSERT INTO home_position (id, seq, at) VALUES (1, $2, clock_timestamp())
      ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, at = excluded.at WHERE home_position.seq = $1`,
    [from ?? null, to],
  );
  return rowCount === 1;
}

/** Ends the portal sessions and links of revoked targets, or with the kind `all` every one (role signet_operator). */
export async function endPortalSessionsOf(
  db: Queryable,
  revoked: readonly Pick<HomeRevocation, "kind" | "target">[],
): Promise<void> {
  await db.query(
    "SELECT end_portal_sessions_of(r.kind, r.target) FROM unnest($1::text[], $2::text[]) AS r (kind, target)",
    [revoked.map(({ kind }) => kind), revoked.map(({ target }) => target)],
  );
}

export interface LogEntryRow {
  readonly idx: number;
  readonly at: Date;
  readonly entry: Buffer;
  readonly leaf_hash: Buffer;
}

/** Returns entries of this cell's own log from `first` on, in order (role signet_audit). */
export async function readEntriesFrom(db: Queryable, first: number, limit: number): Promise<LogEntryRow[]> {
  const { rows } = await db.query<LogEntryRow>(
    "SELECT idx, at, entry, leaf_hash FROM clog WHERE log_id = 1 AND idx >= $1 ORDER BY idx LIMIT $2",
    [first, limit],
  );
  return rows;
}

/** Returns how many entries of a cell's log have arrived in the home cell (role signet_cell, at the home cell). */
export async function cellLogSize(home: Queryable, cell: string): Promise<number> {
  const { rows } = await home.query<{ size: number }>("SELECT cell_log_size($1) AS size", [cell]);
  return rows[0]?.size ?? 0;
}

export interface CellEntries {
  readonly cell: string;
  /** Index of the first in the cell's log. */
  readonly first: number;
  readonly entries: readonly EntryBytes[];
  /** Leaf hash of the entry before the first; null for the first of all. */
  readonly leafBefore: Buffer | null;
  /** Their leaf hashes in the cell's log. */
  readonly leaves: readonly Buffer[];
}

/**
 * Sends entries of a cell's log to the home cell, each once (role signet_cell, at the home cell). Returns how many it has
 * then. Its worker appends them to its log.
 */
export async function appendCellEntries(home: Queryable, given: CellEntries): Promise<number> {
  const { cell, first, entries, leafBefore, leaves } = given;
  const { rows } = await home.query<{ size: number }>(
    "SELECT append_cell_entries($1, $2, $3::bytea[], $4::bytea[], $5, $6::bytea[]) AS size",
    [
      cell,
      first,
      entries.map(({ beforeIndex }) => beforeIndex),
      entries.map(({ afterIndex }) => afterIndex),
      leafBefore,
      leaves,
    ],
  );
  return rows[0]?.size ?? 0;
}

/** An entry of a cell that waits in the home cell. */
export interface WaitingEntry {
  /** Index in the cell's log. */
  readonly place: number;
  readonly sent: EntryBytes;
}

/** Returns the next waiting entries of a cell, in order (role signet_operator). */
export async function readWaitingEntries(
  db: Queryable,
  cell: string,
  limit: number,
): Promise<WaitingEntry[]> {
  const { rows } = await db.query<{ place: number; before_index: Buffer; after_index: Buffer }>(
    "SELECT place, before_index, after_index FROM cell_entries WHERE cell = $1 ORDER BY place LIMIT $2",
    [cell, limit],
  );
  return rows.map(({ place, before_index: beforeIndex, after_index: afterIndex }) => ({
    place,
    sent: { beforeIndex, afterIndex },
  }));
}

/**
 * Removes waiting entries from `first` to `last`, which the transaction appends (role signet_operator). Returns the
 * places of those that nobody else has appended.
 */
export async function takeWaitingEntries(
  db: Queryable,
  cell: string,
  { first, last }: { readonly first: number; readonly last: number },
): Promise<Set<number>> {
  const { rows } = await db.query<{ place: number }>(
    "DELETE FROM cell_entries WHERE cell = $1 AND place BETWEEN $2 AND $3 RETURNING place",
    [cell, first, last],
  );
  return new Set(rows.map(({ place }) => place));
}

/** Returns for how long the oldest entry of any cell has waited, in seconds (role signet_operator). */
export async function longestWait(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ seconds: number }>(
    `SELECT coalesce(greatest(extract(epoch FROM clock_timestamp() - min(arrived_at)), 0), 0)::float8 AS seconds
       FROM cell_entries`,
  );
  return rows[0]?.seconds ?? 0;
}

/** Where a tenant and its clients belong. */
export interface TenantPlaces {
  readonly id: string;
  /** Its own region, and those of its principals that have one. */
  readonly regions: readonly string[];
  readonly erased: boolean;
}

/** Returns where these tenants belong (role signet_operator). Omits unknown ones. */
export async function findTenantPlaces(db: Queryable, ids: readonly string[]): Promise<TenantPlaces[]> {
  const { rows } = await db.query<TenantPlaces>(
    `SELECT id, state = 'ERASED' AS erased,
        ARRAY(SELECT t.region UNION
          SELECT p.region FROM principals p WHERE p.tenant_id = t.id AND p.region <> $2) AS regions
      FROM tenants t WHERE id = ANY ($1::text[])`,
    [ids, EVERY_REGION],
  );
  return rows;
}
