/** The portal's one-time links and sessions, by the hash of what a browser holds. */
import type { Queryable } from "../pool.ts";

/** What a link carries over to the session that it opens, and what revocation asks of either. */
export interface PortalGrant {
  readonly tenantId: string;
  readonly principalId: string;
  readonly credentialId: string;
  readonly scopes: readonly string[];
  readonly jti: string;
  readonly kid: string;
  /** Seconds of Unix time. */
  readonly issuedAt: number;
  readonly certificateThumbprint: string | undefined;
}

/** A row of either table. */
export interface NewPortalRow extends PortalGrant {
  /** SHA-256 of the browser's secret. */
  readonly hash: Buffer;
  readonly createdAt: Date;
  readonly expiresAt: Date;
}

/** A session whose credential, principal and tenant are in use. */
export interface PortalSession extends PortalGrant {
  readonly clientId: string;
  readonly region: string;
  readonly tenantName: string;
  readonly createdAt: Date;
  readonly expiresAt: Date;
}

/** One of a credential's open sessions. */
export interface OpenSession {
  readonly hash: Buffer;
  readonly createdAt: Date;
  readonly expiresAt: Date;
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
}

const COLUMNS = "tenant_id, principal_id, credential_id, scopes, jti, kid, issued_at, certificate_thumbprint";

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
  };
}

/** Writes a link or a session, and forgets the tenant's that are over. */
export async function insertPortalRow(db: Queryable, table: PortalTable, row: NewPortalRow): Promise<void> {
  await db.query(`DELETE FROM ${table} WHERE tenant_id = $1 AND expires_at <= $2`, [
    row.tenantId,
    row.createdAt,
  ]);
  await db.query(
    `INSERT INTO ${table} (hash, ${COLUMNS}, created_at, expires_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
    [
      row.hash,
      row.tenantId,
      row.principalId,
      row.credentialId,
      row.scopes,
      row.jti,
      row.kid,
      row.issuedAt,
      row.certificateThumbprint ?? null,
      row.createdAt,
      row.expiresAt,
    ],
  );
}

/** How many of a credential's links or sessions are not over; who asks next waits until this one has committed. */
export async function countPortalRows(
  db: Queryable,
  table: PortalTable,
  of: { readonly tenantId: string; readonly credentialId: string; readonly now: Date },
): Promise<number> {
  await db.query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [`${table} ${of.credentialId}`]);
  const { rows } = await db.query<{ count: number }>(
    `SELECT count(*)::int FROM ${table} WHERE tenant_id = $1 AND credential_id = $2 AND expires_at > $3`,
    [of.tenantId, of.credentialId, of.now],
  );
  return rows[0]?.count ?? 0;
}

/** Takes a link out of use: of many who come with it, one gets what it carries. */
export async function consumePortalLink(
  db: Queryable,
  { tenantId, hash, now }: { readonly tenantId: string; readonly hash: Buffer; readonly now: Date },
): Promise<PortalGrant | undefined> {
  const { rows } = await db.query<GrantRow & { live: boolean }>(
    `DELETE FROM portal_links WHERE tenant_id = $1 AND hash = $2 RETURNING ${COLUMNS}, expires_at > $3 AS live`,
    [tenantId, hash, now],
  );
  const [row] = rows;
  return row?.live === true ? grantOf(row) : undefined;
}

/** A session that is not over; its scopes are those that its principal still has. */
export async function findPortalSession(
  db: Queryable,
  { tenantId, hash, now }: { readonly tenantId: string; readonly hash: Buffer; readonly now: Date },
): Promise<PortalSession | undefined> {
  const { rows } = await db.query<
    GrantRow & {
      client_id: string;
      region: string;
      tenant_name: string;
      created_at: Date;
      expires_at: Date;
    }
  >({
    name: "find-portal-session",
    text: `SELECT s.tenant_id, s.principal_id, s.credential_id, s.jti, s.kid, s.issued_at, s.certificate_thumbprint,
        ARRAY(SELECT unnest(s.scopes) INTERSECT SELECT unnest(p.scopes) ORDER BY 1) AS scopes,
        c.client_id, p.region, t.name AS tenant_name, s.created_at, s.expires_at
      FROM portal_sessions s
      JOIN credentials c ON c.id = s.credential_id AND c.tenant_id = s.tenant_id AND c.state = 'ACTIVE'
        AND (c.ends_at IS NULL OR c.ends_at > $3)
      JOIN principals p ON p.id = s.principal_id AND p.tenant_id = s.tenant_id AND p.state = 'ACTIVE'
      JOIN tenants t ON t.id = s.tenant_id AND t.state = 'ACTIVE'
      WHERE s.tenant_id = $1 AND s.hash = $2 AND s.expires_at > $3`,
    values: [tenantId, hash, now],
  });
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

/** A credential's open sessions, newest first. */
export async function listPortalSessions(
  db: Queryable,
  of: {
    readonly tenantId: string;
    readonly credentialId: string;
    readonly now: Date;
    readonly limit: number;
  },
): Promise<OpenSession[]> {
  const { rows } = await db.query<{ hash: Buffer; created_at: Date; expires_at: Date }>(
    `SELECT hash, created_at, expires_at FROM portal_sessions
      WHERE tenant_id = $1 AND credential_id = $2 AND expires_at > $3 ORDER BY created_at DESC, hash LIMIT $4`,
    [of.tenantId, of.credentialId, of.now, of.limit],
  );
  return rows.map((row) => ({ hash: row.hash, createdAt: row.created_at, expiresAt: row.expires_at }));
}

/** Ends one of a credential's sessions; false when there is none. */
export async function endPortalSession(
  db: Queryable,
  of: { readonly tenantId: string; readonly credentialId: string; readonly hash: Buffer },
): Promise<boolean> {
  const { rowCount } = await db.query(
    "DELETE FROM portal_sessions WHERE tenant_id = $1 AND credential_id = $2 AND hash = $3",
    [of.tenantId, of.credentialId, of.hash],
  );
  return rowCount === 1;
}
