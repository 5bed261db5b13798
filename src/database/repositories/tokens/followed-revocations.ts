/** Reads the revocations that processes follow: new ones, or all live ones in parts. */
import type { QueryResultRow } from "pg";
import type { Queryable } from "#database/pool.ts";

/** A revocation as needed to admit tokens. */
export interface FollowedRevocation {
  readonly seq: number;
  readonly kind: string;
  readonly target: string;
  /** When no token of its target can be valid any more, in Unix milliseconds of the database's clock; null: never. */
  readonly endsAtMs: number | null;
  /** When it was published, by the same clock. */
  readonly atMs: number;
  /**
   * Set if it lifts earlier ones: tokens issued before this second of Unix time stay revoked. Null for a revocation.
   */
  readonly issuedBefore: number | null;
}

/** The state of the sequence, and the revocations after the requested number. */
export interface RevocationNews {
  readonly seq: number;
  /** Identifies the database. With another epoch, sequence numbers have another meaning. */
  readonly epoch: string;
  /** Whether the database is a standby. A standby may lag, so its answer proves nothing. */
  readonly standby: boolean;
  /** The database's clock, in Unix milliseconds, read between question and answer. */
  readonly nowMs: number;
  readonly revocations: readonly FollowedRevocation[];
}

interface FollowedRow {
  readonly seq: number;
  readonly kind: string;
  readonly target: string;
  readonly ends_at_ms: number | null;
  readonly at_ms: number;
  readonly issued_before: number | null;
}

/** The columns of a {@link FollowedRow}, from `revocations r`. */
const FOLLOWED = `r.seq, r.kind, r.target, (extract(epoch FROM r.expires_at) * 1000)::float8 AS ends_at_ms,
       (extract(epoch FROM r.at) * 1000)::float8 AS at_ms, r.issued_before`;

const LIVE = "(r.expires_at IS NULL OR r.expires_at > clock_timestamp())";

const NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now_ms";

interface ClockRow {
  readonly now_ms: number;
  readonly clock: number;
  readonly epoch: string;
  readonly standby: boolean;
}

function followedOf(row: FollowedRow): FollowedRevocation {
  const { seq, kind, target, ends_at_ms: endsAtMs, at_ms: atMs, issued_before: issuedBefore } = row;
  return { seq, kind, target, endsAtMs, atMs, issuedBefore };
}

function newsOf(row: ClockRow | undefined, revocations: readonly FollowedRevocation[]): RevocationNews {
  if (row === undefined) {
    throw new Error("the sequence of the revocations is missing");
  }
  return { seq: row.clock, epoch: row.epoch, standby: row.standby, nowMs: row.now_ms, revocations };
}

/** Reads the sequence and the live revocations after `after`, in one snapshot (role signet_edge). */
export async function readRevocationNews(db: Queryable, after: number): Promise<RevocationNews> {
  const { rows } = await db.query<ClockRow & (FollowedRow | { readonly seq: null })>({
    name: "revocation-news",
    text: `SELECT c.seq AS clock, c.epoch, pg_is_in_recovery() AS standby, ${NOW}, ${FOLLOWED}
             FROM rev_clock c
             LEFT JOIN revocations r ON r.seq > $1 AND ${LIVE}
            ORDER BY r.seq`,
    values: [after],
  });
  return newsOf(
    rows[0],
    rows.flatMap((row) => (row.seq === null ? [] : [followedOf(row)])),
  );
}

/** Rows of one answer, of about 300 kB: reading them takes less than 20 ms. */
const PAGE_ROWS = 5_000;

/** Limits how long an answer may take, each for itself. */
export type Within = <T>(answer: Promise<T>) => Promise<T>;

/** Reads the rows of a query to the end, in answers of so many, inside a transaction. */
async function readInParts<Row extends QueryResultRow>(
  db: Queryable,
  within: Within,
  { query, rowsAtOnce }: { readonly query: string; readonly rowsAtOnce: number },
  take: (rows: readonly Row[]) => void,
): Promise<void> {
  await within(db.query(`DECLARE parts NO SCROLL CURSOR FOR ${query}`));
  let read = rowsAtOnce;
  while (read === rowsAtOnce) {
    const { rows } = await within(db.query<Row>(`FETCH ${rowsAtOnce} FROM parts`));
    take(rows);
    read = rows.length;
  }
}

/**
 * Reads all live revocations, of which there may be a million, over a connection that nothing else uses meanwhile (role
 * signet_edge). Each page goes to `take`; the answer holds only those of tenants, whose order counts.
 */
export async function readAllRevocations(
  db: Queryable,
  within: Within,
  take: (page: readonly FollowedRevocation[]) => void,
): Promise<RevocationNews> {
  await within(db.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"));
  const { rows: clocks } = await within(
    db.query<ClockRow>(`SELECT seq AS clock, epoch, pg_is_in_recovery() AS standby, ${NOW} FROM rev_clock`),
  );
  // A cursor is otherwise planned for its first rows, which reads ended revocations, too.
  await within(db.query("SET LOCAL cursor_tuple_fraction = 1"));
  const query = `SELECT ${FOLLOWED} FROM revocations r WHERE r.kind <> 'tenant' AND ${LIVE}`;
  await readInParts<FollowedRow>(db, within, { query, rowsAtOnce: PAGE_ROWS }, (rows) =>
    take(rows.map(followedOf)),
  );
  const { rows: tenants } = await within(
    db.query<FollowedRow>(
      `SELECT ${FOLLOWED} FROM revocations r WHERE r.kind = 'tenant' AND ${LIVE} ORDER BY r.seq`,
    ),
  );
  await within(db.query("COMMIT"));
  return newsOf(clocks[0], tenants.map(followedOf));
}

/** Parts of a snapshot in one answer, of about 260 kB each. Each answer takes a round trip. */
const PARTS_AT_ONCE = 16;

export interface SnapshotRow {
  readonly clock: number;
  readonly epoch: string;
  readonly head: string;
  readonly lines: string;
  readonly codes: string;
}

/**
 * Reads all live revocations with their proof, in parts (role signet_edge). After an error, the connection must be
 * closed.
 */
export async function readRevocationSnapshot(db: Queryable, within: Within): Promise<SnapshotRow> {
  await within(db.query("BEGIN"));
  const parts: SnapshotRow[] = [];
  const query = "SELECT clock, epoch, head, lines, codes FROM revocation_snapshot()";
  await readInParts<SnapshotRow>(db, within, { query, rowsAtOnce: PARTS_AT_ONCE }, (rows) => {
    parts.push(...rows);
  });
  await within(db.query("COMMIT"));
  return { ...(parts[0] as SnapshotRow), lines: parts.map(({ lines }) => lines).join("\n") };
}
