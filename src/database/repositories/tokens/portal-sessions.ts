/** The portal's one-time links and sessions, by the hash of the browser's secret. */
import { lockName } from "#database/lock-name.ts";
import type { Queryable } from "#database/pool.ts";
import { raw, sql } from "#database/sql.ts";

/** The data that a link passes to its session, and by which either can be revoked. */
export interface PortalGrant {
  readonly tenantId: string;
  readonly principalId: string;
  readonly credentialId: string;
  readonly scopes: readonly string[];
  readonly jti: string;
  readonly kid: string;
  /** Issue time of the token, in seconds of Unix time. */
  readonly issuedAt: number;
  readonly certificateThumbprint: string | undefined;
  /** Client id and region of the token; null for rows of an earlier version. */
  readonly clientId: string | null;
  readonly region: string | null;
}

/** A row of either table. */
export interface NewPortalRow extends PortalGrant {
  /** SHA-256 of the browser's secret. */
  readonly hash: Buffer;
  readonly createdAt: Date;
  readonly expiresAt: Date;
  /** From where the browser signed in; only of sessions. */
  readonly from?: SignInOrigin;
}

/** From where a browser signed in; null for sessions from before this was stored. */
export interface SignInOrigin {
  readonly address: string | null;
  readonly user_agent: string | null;
}

/** A session whose credential, principal and tenant are active. */
export interface PortalSession extends PortalGrant {
  readonly clientId: string;
  readonly region: string;
  readonly tenantName: string;
  readonly createdAt: Date;
  readonly expiresAt: Date;
}

/** One of a credential's open sessions. */
export interface OpenSession extends SignInOrigin {
  readonly hash: Buffer;
  /** Whether its scopes are no wider than those of the calling session. */
  readonly within: boolean;
  readonly created_at: Date;
  readonly expires_at: Date;
}

type PortalTable = "portal_links" | "portal_sessions";

interface GrantRow {
  tenant_id: string;
  principal_id: string;
  credential_id: string;
  scopes: string[];
  jti: string;
  kid: string;
  issued_at: string;
  certificate_thumbprint: string | null;
  client_id: string | null;
  region: string | null;
}

const COLUMNS =
  "tenant_id, principal_id, credential_id, scopes, jti, kid, issued_at, certificate_thumbprint, client_id, region";

function grantOf(row: GrantRow): PortalGrant {
  return {
    tenantId: row.tenant_id,
    principalId: row.principal_id,
    credentialId: row.credential_id,
    scopes: row.scopes,
    jti: row.jti,
    kid: row.kid,
    issuedAt: Number(row.issued_at),
    certificateThumbprint: row.certificate_thumbprint ?? undefined,
    clientId: row.client_id,
    region: row.region,
  };
}

/** Inserts a link or a session, and removes the tenant's expired ones. */
export async function insertPortalRow(db: Queryable, table: PortalTable, row: NewPortalRow): Promise<void> {
  await db.query(`DELETE FROM ${table} WHERE tenant_id = $1 AND expires_at <= $2`, [
    row.tenantId,
    row.createdAt,
  ]);
  const { from } = row;
  const places = from === undefined ? raw("") : raw(", address, user_agent");
  const origin = from === undefined ? raw("") : sql`, ${from.address}, ${from.user_agent}`;
  await db.query(
    sql`INSERT INTO ${raw(table)} (hash, ${raw(COLUMNS)}, created_at, expires_at${places})
     VALUES (${row.hash}, ${row.tenantId}, ${row.principalId}, ${row.credentialId}, ${row.scopes}, ${row.jti}, ${row.kid},
       ${row.issuedAt}, ${row.certificateThumbprint ?? null}, ${row.clientId}, ${row.region}, ${row.createdAt},
       ${row.expiresAt}${origin})`,
  );
}

/**
 * Deletes a credential's oldest links or sessions, so that there are `max` after adding one. Concurrent callers wait
 * until this transaction ends.
 *
 * @returns the number of open ones that were deleted
 */
export async function makeRoomForPortalRow(
  db: Queryable,
  table: PortalTable,
  of: {
    readonly tenantId: string;
    readonly credentialId: string;
    readonly now: Date;
    readonly max: number;
  },
): Promise<number> {
  await lockName(db, `${table}/${of.credentialId}`);
  const { rowCount } = await db.query(
    `DELETE FROM ${table} WHERE tenant_id = $1 AND hash IN (
       SELECT hash FROM ${table} WHERE tenant_id = $1 AND credential_id = $2 AND expires_at > $3
       ORDER BY created_at DESC, hash OFFSET $4)`,
    [of.tenantId, of.credentialId, of.now, of.max - 1],
  );
  return rowCount ?? 0;
}

/** Whether there is an unused link that has not expired. */
export async function hasPortalLink(
  db: Queryable,
  { tenantId, hash, now }: { readonly tenantId: string; readonly hash: Buffer; readonly now: Date },
): Promise<boolean> {
  const { rowCount } = await db.query(
    "SELECT FROM portal_links WHERE tenant_id = $1 AND hash = $2 AND expires_at > $3",
    [tenantId, hash, now],
  );
  return rowCount === 1;
}

/** Consumes a link. Of several concurrent callers, only one gets its grant. */
export async function consumePortalLink(
  db: Queryable,
  { tenantId, hash, now }: { readonly tenantId: string; readonly hash: Buffer; readonly now: Date },
): Promise<PortalGrant | undefined> {
  const { rows } = await db.query<GrantRow & { live: boolean }>(
    `DELETE FROM portal_links WHERE tenant_id = $1 AND hash = $2 RETURNING ${COLUMNS}, expires_at > $3 AND created_at <= $3::timestamptz + interval '1 minute' AS live`,
    [tenantId, hash, now],
  );
  const [row] = rows;
  return row?.live === true ? grantOf(row) : undefined;
}

const SESSION_COLUMNS =
  "s.tenant_id, s.principal_id, s.credential_id, s.jti, s.kid, s.issued_at, s.certificate_thumbprint";
const OPEN = `JOIN tenants t ON t.id = s.tenant_id AND t.state = 'ACTIVE'
      WHERE s.tenant_id = $1 AND s.hash = $2 AND s.expires_at > $3
        -- A session from the future was stamped by a wrong clock, and would live too long.
        AND s.created_at <= $3::timestamptz + interval '1 minute'`;

const FIND_AT_HOME = {
  name: "find-portal-session",
  text: `SELECT ${SESSION_COLUMNS},
        ARRAY(SELECT unnest(s.scopes) INTERSECT SELECT unnest(p.scopes) ORDER BY 1) AS scopes,
        c.client_id, p.region, t.name AS tenant_name, s.created_at, s.expires_at
      FROM portal_sessions s
      JOIN credentials c ON c.id = s.credential_id AND c.tenant_id = s.tenant_id AND c.state = 'ACTIVE'
        AND (c.ends_at IS NULL OR c.ends_at > $3)
      JOIN principals p ON p.id = s.principal_id AND p.tenant_id = s.tenant_id AND p.state = 'ACTIVE'
      ${OPEN}`,
};

/**
 * Principals and credentials are in the home cell. Its revocations end the sessions here; while nobody has asked for them
 * for a minute, no session is open. A process remembers a revocation for longer than that.
 */
const FIND_AWAY = {
  name: "find-portal-session-away",
  text: `SELECT ${SESSION_COLUMNS}, s.scopes, s.client_id, s.region, t.name AS tenant_name, s.created_at, s.expires_at
      FROM portal_sessions s
      ${OPEN}
        AND s.client_id IS NOT NULL AND s.region IS NOT NULL
        AND EXISTS (
          -- An instant of the future was stamped by a clock that has gone back since.
          SELECT FROM home_position
           WHERE at BETWEEN clock_timestamp() - interval '1 minute' AND clock_timestamp() + interval '1 minute')`,
};

/**
 * Returns an open session. At home, it has the scopes that its principal still has.
 *
 * @param away whether this is a cell other than the home cell
 */
export async function findPortalSession(
  db: Queryable,
  {
    tenantId,
    hash,
    now,
    away,
  }: {
    readonly tenantId: string;
    readonly hash: Buffer;
    readonly now: Date;
    readonly away: boolean;
  },
): Promise<PortalSession | undefined> {
  const { rows } = await db.query<
    GrantRow & {
      client_id: string;
      region: string;
      tenant_name: string;
      created_at: Date;
      expires_at: Date;
    }
  >({ ...(away ? FIND_AWAY : FIND_AT_HOME), values: [tenantId, hash, now] });
  const [row] = rows;
  return (
    row && {
      ...grantOf(row),
      clientId: row.client_id,
      region: row.region,
      tenantName: row.tenant_name,
      createdAt: row.created_at,
      expiresAt: row.expires_at,
    }
  );
}

/** Returns the open sessions of the calling session's credential, newest first. */
export async function listPortalSessions(
  db: Queryable,
  of: { readonly tenantId: string; readonly asking: Buffer; readonly now: Date; readonly limit: number },
): Promise<OpenSession[]> {
  const { rows } = await db.query<OpenSession>(
    `SELECT s.hash, s.scopes <@ asking.scopes AS within, s.created_at, s.expires_at,
        s.address, s.user_agent
      FROM portal_sessions asking
      JOIN portal_sessions s ON s.tenant_id = asking.tenant_id AND s.credential_id = asking.credential_id
      WHERE asking.tenant_id = $1 AND asking.hash = $2 AND s.expires_at > $3
      ORDER BY s.created_at DESC, s.hash LIMIT $4`,
    [of.tenantId, of.asking, of.now, of.limit],
  );
  return rows;
}

/** Ends a session. Returns its tenant and credential, or undefined if there is none. */
export async function endPortalSession(
  db: Queryable,
  of: { readonly tenantId: string; readonly hash: Buffer },
): Promise<Pick<PortalGrant, "tenantId" | "credentialId"> | undefined> {
  const { rows } = await db.query<{ credential_id: string }>(
    "DELETE FROM portal_sessions WHERE tenant_id = $1 AND hash = $2 RETURNING credential_id",
    [of.tenantId, of.hash],
  );
  const [row] = rows;
  return row && { tenantId: of.tenantId, credentialId: row.credential_id };
}

/**
 * Compares the scopes of a session with those of the calling one. Returns undefined if the credential has no such
 * session.
 */
export async function comparePortalSession(
  db: Queryable,
  of: { readonly tenantId: string; readonly asking: Buffer; readonly hash: Buffer },
): Promise<"wider" | "within" | undefined> {
  const { rows } = await db.query<{ within: boolean }>(
    `SELECT s.scopes <@ asking.scopes AS within FROM portal_sessions asking
      JOIN portal_sessions s ON s.tenant_id = asking.tenant_id AND s.credential_id = asking.credential_id
      WHERE asking.tenant_id = $1 AND asking.hash = $2 AND s.hash = $3`,
    [of.tenantId, of.asking, of.hash],
  );
  const [row] = rows;
  return row && (row.within ? "within" : "wider");
}
