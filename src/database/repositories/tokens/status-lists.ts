/** Status lists of tokens: reserved places, the tokens at them, and which of these are revoked. */
import type { Queryable } from "#database/pool.ts";
import { sql } from "#database/sql.ts";

/** The places of one list that a process has reserved. */
export interface ReservedPlaces {
  readonly id: string;
  readonly number: number;
  readonly order_key: Buffer;
  /** The first place, before the list's order is applied. */
  readonly first: number;
}

export interface Reservation {
  /** Id and key of a new list, if none has room. */
  readonly id: string;
  readonly orderKey: Buffer;
  /** Number of places, and of all places of a list. */
  readonly count: number;
  readonly size: number;
  readonly now: Date;
  /** Lists made before this instant take no more tokens. */
  readonly openSince: Date;
}

/**
 * Reserves places of the newest list that has room, or of a new one (role signet_issuer). A list whose
 * places older processes order in another way has none (migration 0066).
 */
export async function reservePlaces(
  db: Queryable,
  { id, orderKey, count, size, now, openSince }: Reservation,
): Promise<ReservedPlaces> {
  const { rows } = await db.query<ReservedPlaces>(
    sql`WITH open AS (
          SELECT id FROM status_lists WHERE taken <= ${size - count}::int AND created_at > ${openSince}
           ORDER BY created_at DESC LIMIT 1 FOR UPDATE
        ), taken AS (
          UPDATE status_lists l SET taken = l.taken + ${count}::int, last_reserved_at = ${now}
            FROM open WHERE l.id = open.id RETURNING l.id, l.number, l.order_key, l.taken
        ), made AS (
          INSERT INTO status_lists (id, order_key, reserved, taken, created_at, last_reserved_at)
          SELECT ${id}, ${orderKey}, ${size}, ${count}, ${now}, ${now} WHERE NOT EXISTS (SELECT FROM open)
          RETURNING id, number, order_key, taken
        )
        SELECT id, number, order_key, taken - ${count}::int AS first
          FROM (SELECT * FROM taken UNION ALL SELECT * FROM made) places`,
  );
  return rows[0] as ReservedPlaces;
}

/** A token at its place. */
export interface PlacedToken {
  readonly list: number;
  readonly place: number;
  readonly credentialId: string;
  /** `iat`, in seconds of Unix time. */
  readonly issuedAt: number;
  /** SHA-256 of the certificate that it is bound to. */
  readonly certificate: Buffer | null;
}

/** Records tokens at their places (role signet_issuer). */
export async function insertPlacedTokens(db: Queryable, tokens: readonly PlacedToken[]): Promise<void> {
  await db.query({
    name: "place-tokens",
    text: `INSERT INTO status_list_tokens (list, place, credential_id, issued_at, certificate)
           SELECT * FROM unnest($1::int[], $2::int[], $3::text[], $4::bigint[], $5::bytea[])`,
    values: [
      tokens.map(({ list }) => list),
      tokens.map(({ place }) => place),
      tokens.map(({ credentialId }) => credentialId),
      tokens.map(({ issuedAt }) => issuedAt),
      tokens.map(({ certificate }) => certificate),
    ],
  });
}

/** Returns a list's number if tokens were placed in it since `since` (role signet_issuer). */
export async function findStatusList(db: Queryable, id: string, since: Date): Promise<number | undefined> {
  const { rows } = await db.query<{ number: number }>(
    sql`SELECT number FROM status_lists WHERE id = ${id} AND last_reserved_at > ${since}`,
  );
  return rows[0]?.number;
}

/** Returns the ids of the lists in which tokens were placed since `since`, newest first (role signet_issuer). */
export async function listStatusLists(db: Queryable, since: Date, limit: number): Promise<readonly string[]> {
  const { rows } = await db.query<{ id: string }>(
    sql`SELECT id FROM status_lists WHERE last_reserved_at > ${since} ORDER BY id DESC LIMIT ${limit}`,
  );
  return rows.map(({ id }) => id);
}

/** What is revoked in a list. */
export interface RevokedPlaces {
  /** Places of tokens whose credential, principal, tenant or certificate is revoked: 32 bits each, big-endian. */
  readonly places: Buffer;
  /** Single tokens that are revoked, of any list, by `jti`. */
  readonly jtis: readonly string[];
}

/**
 * Reads what is revoked in a list (role signet_issuer). A tenant's revocation that was lifted holds for tokens issued
 * before. Certificates revoked before the oldest live token cannot be those of a live token.
 */
export async function readRevokedPlaces(db: Queryable, list: number): Promise<RevokedPlaces> {
  const { rows } = await db.query<{ places: Buffer | null; jtis: readonly string[] | null }>({
    name: "revoked-places",
    text: `WITH live AS (
        SELECT DISTINCT ON (kind, target) kind, target, issued_before FROM revocations
         WHERE kind IN ('credential', 'principal', 'tenant') AND expires_at > clock_timestamp()
         ORDER BY kind, target, seq DESC
      ), denied AS (
        SELECT target AS credential_id, NULL::bigint AS issued_before FROM live WHERE kind = 'credential'
        UNION ALL
        SELECT c.id, NULL FROM live JOIN credentials c ON c.principal_id = live.target WHERE live.kind = 'principal'
        UNION ALL
        SELECT c.id, live.issued_before FROM live JOIN credentials c ON c.tenant_id = live.target WHERE live.kind = 'tenant'
      ), certificates AS MATERIALIZED (
        SELECT decode(target, 'hex') AS digest FROM revocations
         WHERE kind = 'cert' AND at > clock_timestamp() - interval '20 minutes'
      ), revoked AS (
        SELECT t.place FROM denied JOIN status_list_tokens t ON t.list = $1 AND t.credential_id = denied.credential_id
         WHERE denied.issued_before IS NULL OR t.issued_at < denied.issued_before
        UNION ALL
        SELECT place FROM status_list_tokens
         WHERE (SELECT count(*) FROM certificates) > 0 AND list = $1 AND certificate IN (SELECT digest FROM certificates)
      )
      SELECT (SELECT string_agg(int4send(place), '') FROM revoked) AS places,
             (SELECT array_agg(target) FROM revocations WHERE kind = 'jti' AND expires_at > clock_timestamp()) AS jtis`,
    values: [list],
  });
  const [row] = rows;
  return { places: row?.places ?? Buffer.alloc(0), jtis: row?.jtis ?? [] };
}

/**
 * Removes the tokens of lists in which none was placed since `before`, then the lists (role signet_worker).
 *
 * @param most maximum number of tokens
 * @returns the number of removed rows
 */
export async function forgetStatusLists(db: Queryable, before: Date, most: number): Promise<number> {
  const ended = sql`SELECT number FROM status_lists WHERE last_reserved_at < ${before}`;
  const tokens = await db.query(
    sql`DELETE FROM status_list_tokens WHERE ctid = ANY (ARRAY(
          SELECT ctid FROM status_list_tokens WHERE list IN (${ended}) LIMIT ${most}))`,
  );
  if ((tokens.rowCount ?? 0) > 0) {
    return tokens.rowCount ?? 0;
  }
  return (await db.query(sql`DELETE FROM status_lists WHERE number IN (${ended})`)).rowCount ?? 0;
}
