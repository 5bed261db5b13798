/** Operators, their roles and their certificates. */
import type { OperatorRole } from "#domain/operator-roles.ts";
import { reportDuplicates } from "#database/errors.ts";
import { lockName } from "#database/lock-name.ts";
import type { Queryable } from "#database/pool.ts";
import { raw, sql } from "#database/sql.ts";
import type { RowPage } from "../page.ts";
import type { Row } from "#database/rows.ts";

export interface OperatorRow extends Row<
  "operators",
  | "id"
  | "name"
  | "role"
  | "state"
  | "san_uri"
  | "certificate_thumbprints"
  | "created_by"
  | "created_at"
  | "revoked_at"
> {
  /** Id of the operator who created this one. */
  readonly created_by: string;
}

/** The settings of an operator that can change. */
export interface OperatorSettings {
  readonly role: OperatorRole;
  readonly sanUri: string | null;
  readonly certificateThumbprints: readonly string[];
}

export interface NewOperator extends OperatorSettings {
  readonly id: string;
  readonly name: string;
  readonly createdBy: string;
  readonly nowMs: number;
}

const COLUMNS = "id, name, role, state, san_uri, certificate_thumbprints, created_by, created_at, revoked_at";

const DUPLICATES = {
  operators_name_once: "An operator with this name already exists.",
  operators_san_uri_once: "Another operator has this SAN URI.",
};

/** Adds an operator. @throws DuplicateError if another one has its name or its SAN URI */
export async function insertOperator(db: Queryable, operator: NewOperator): Promise<OperatorRow> {
  const { id, name, role, sanUri, certificateThumbprints, createdBy, nowMs } = operator;
  const { rows } = await reportDuplicates(
    db.query<OperatorRow>(
      sql`INSERT INTO operators (id, name, role, san_uri, certificate_thumbprints, created_by, created_at)
       VALUES (${id}, ${name}, ${role}, ${sanUri}, ${certificateThumbprints}, ${createdBy}, ${new Date(nowMs)})
       RETURNING ${raw(COLUMNS)}`,
    ),
    DUPLICATES,
  );
  return rows[0] as OperatorRow;
}

/** Returns operators, newest first. */
export async function listOperators(db: Queryable, { limit, before }: RowPage): Promise<OperatorRow[]> {
  const { rows } = await db.query<OperatorRow>(
    `SELECT ${COLUMNS} FROM operators WHERE $1::text IS NULL OR id < $1 ORDER BY id DESC LIMIT $2`,
    [before, limit + 1],
  );
  return rows;
}

export async function findOperator(db: Queryable, id: string): Promise<OperatorRow | undefined> {
  const { rows } = await db.query<OperatorRow>(`SELECT ${COLUMNS} FROM operators WHERE id = $1`, [id]);
  return rows[0];
}

/** Changes an operator. @throws DuplicateError if another one has the SAN URI */
export async function updateOperator(
  db: Queryable,
  id: string,
  { role, sanUri, certificateThumbprints }: OperatorSettings,
): Promise<OperatorRow> {
  const { rows } = await reportDuplicates(
    db.query<OperatorRow>(
      sql`UPDATE operators SET role = ${role}, san_uri = ${sanUri}, certificate_thumbprints = ${certificateThumbprints}
       WHERE id = ${id} RETURNING ${raw(COLUMNS)}`,
    ),
    DUPLICATES,
  );
  return rows[0] as OperatorRow;
}

/** Revokes an operator permanently. */
export async function revokeOperator(db: Queryable, id: string, nowMs: number): Promise<OperatorRow> {
  const { rows } = await db.query<OperatorRow>(
    `UPDATE operators SET state = 'REVOKED', revoked_at = $2 WHERE id = $1 RETURNING ${COLUMNS}`,
    [id, new Date(nowMs)],
  );
  return rows[0] as OperatorRow;
}

/** Returns the active operators with either of these names. The caller must reject more than one. */
export async function findOperatorsByCertificate(
  db: Queryable,
  thumbprint: string,
  sanUri: string | null,
): Promise<OperatorRow[]> {
  const { rows } = await db.query<OperatorRow>(
    `SELECT ${COLUMNS} FROM operators
      WHERE state = 'ACTIVE' AND (certificate_thumbprints @> ARRAY[$1::text] OR san_uri = $2)`,
    [thumbprint, sanUri],
  );
  return rows;
}

/** Makes changes of operators run one after the other, until the transaction ends. */
export async function lockOperators(db: Queryable): Promise<void> {
  await lockName(db, "operators");
}

/** Whether an active operator of role security can sign in, with a valid token or a certificate. */
export async function hasWayToSecurity(db: Queryable, nowMs: number): Promise<boolean> {
  const { rowCount } = await db.query(
    `SELECT FROM operators o
      WHERE state = 'ACTIVE' AND role = 'security'
        AND (san_uri IS NOT NULL OR certificate_thumbprints <> '{}' OR EXISTS (
          SELECT FROM operator_tokens t
           WHERE t.operator_id = o.id AND t.revoked_at IS NULL AND t.expires_at > $1))
      LIMIT 1`,
    [new Date(nowMs)],
  );
  return rowCount === 1;
}
