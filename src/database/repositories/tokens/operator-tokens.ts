/** Operators' tokens: their MACs, expiry and last use. */
import type { PepperedMac } from "#crypto/pepper.ts";
import type { OperatorRole } from "#domain/operator-roles.ts";
import type { Queryable } from "#database/pool.ts";
import { raw, sql } from "#database/sql.ts";
import type { RowPage } from "../page.ts";
import type { Row } from "#database/rows.ts";

export interface OperatorTokenRow extends Row<
  "operator_tokens",
  "id" | "operator_id" | "prefix" | "created_by" | "created_at" | "expires_at" | "last_used_at" | "revoked_at"
> {}

export interface NewOperatorToken {
  readonly id: string;
  readonly operatorId: string;
  readonly prefix: string;
  readonly mac: Buffer;
  readonly macKeyId: string;
  readonly createdBy: string;
  readonly nowMs: number;
  readonly expiresAtMs: number;
}

/** A token with the data that decide whether it is valid. */
export type PresentedTokenRow = OperatorTokenRow & {
  readonly mac_key_id: string;
  readonly role: OperatorRole;
  readonly operator_state: "ACTIVE" | "REVOKED";
};

const COLUMNS = "id, operator_id, prefix, created_by, created_at, expires_at, last_used_at, revoked_at";

export async function insertOperatorToken(db: Queryable, token: NewOperatorToken): Promise<OperatorTokenRow> {
  const { rows } = await db.query<OperatorTokenRow>(
    sql`INSERT INTO operator_tokens (id, operator_id, prefix, mac, mac_key_id, created_by, created_at, expires_at)
     VALUES (${token.id}, ${token.operatorId}, ${token.prefix}, ${token.mac}, ${token.macKeyId}, ${token.createdBy},
       ${new Date(token.nowMs)}, ${new Date(token.expiresAtMs)}) RETURNING ${raw(COLUMNS)}`,
  );
  return rows[0] as OperatorTokenRow;
}

/** Returns how many tokens of an operator are valid. */
export async function countLiveTokens(db: Queryable, operatorId: string, nowMs: number): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `SELECT count(*) FROM operator_tokens WHERE operator_id = $1 AND revoked_at IS NULL AND expires_at > $2`,
    [operatorId, new Date(nowMs)],
  );
  return rows[0]?.count ?? 0;
}

/** Returns an operator's tokens, newest first. */
export async function listOperatorTokens(
  db: Queryable,
  operatorId: string,
  { limit, before }: RowPage,
): Promise<OperatorTokenRow[]> {
  const { rows } = await db.query<OperatorTokenRow>(
    `SELECT ${COLUMNS} FROM operator_tokens
      WHERE operator_id = $1 AND ($2::text IS NULL OR id < $2) ORDER BY id DESC LIMIT $3`,
    [operatorId, before, limit + 1],
  );
  return rows;
}

export async function findOperatorToken(
  db: Queryable,
  operatorId: string,
  id: string,
): Promise<OperatorTokenRow | undefined> {
  const { rows } = await db.query<OperatorTokenRow>(
    `SELECT ${COLUMNS} FROM operator_tokens WHERE operator_id = $1 AND id = $2`,
    [operatorId, id],
  );
  return rows[0];
}

/** Returns the token with one of these MACs, valid or not. A MAC requires the token, or access to the pepper. */
export async function findPresentedToken(
  db: Queryable,
  macs: readonly PepperedMac[],
): Promise<PresentedTokenRow | undefined> {
  const { rows } = await db.query<PresentedTokenRow>({
    name: "find-operator-token",
    text: `SELECT t.id, t.operator_id, t.prefix, t.created_by, t.created_at, t.expires_at, t.last_used_at,
                  t.revoked_at, t.mac_key_id, o.role, o.state AS operator_state
             FROM operator_tokens t JOIN operators o ON o.id = t.operator_id
            WHERE (t.mac, t.mac_key_id) IN (SELECT * FROM unnest($1::bytea[], $2::text[]))`,
    values: [macs.map(({ mac }) => mac), macs.map(({ keyId }) => keyId)],
  });
  return rows[0];
}

/** Records a token's use, and stores its MAC under the newest pepper. */
export async function touchOperatorToken(
  db: Queryable,
  id: string,
  { nowMs, mac, macKeyId }: { readonly nowMs: number; readonly mac: Buffer; readonly macKeyId: string },
): Promise<void> {
  await db.query("UPDATE operator_tokens SET last_used_at = $2, mac = $3, mac_key_id = $4 WHERE id = $1", [
    id,
    new Date(nowMs),
    mac,
    macKeyId,
  ]);
}

/** Revokes a token. An already revoked one keeps its date. */
export async function revokeOperatorToken(db: Queryable, id: string, nowMs: number): Promise<void> {
  await db.query("UPDATE operator_tokens SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL", [
    id,
    new Date(nowMs),
  ]);
}
