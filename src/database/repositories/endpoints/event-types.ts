/** The catalogue of event types, and the versions of their schemas. */
import { lockName } from "#database/lock-name.ts";
import type { Queryable } from "#database/pool.ts";
import { raw, sql } from "#database/sql.ts";
import type { TenantAndType } from "../webhooks/matches.ts";

export interface EventTypeRow {
  readonly name: string;
  readonly description: string | null;
  /** JSON array with the tenant's items unchanged. */
  readonly examples: string;
  readonly schema_version: number | null;
  /** Text of that version. */
  readonly schema: string | null;
  readonly deprecated_at: Date | null;
  readonly replaced_by: string | null;
  readonly archived_at: Date | null;
  readonly created_at: Date;
  readonly updated_at: Date;
}

export interface SchemaRow {
  readonly version: number;
  readonly schema: string;
  readonly created_at: Date;
}

/** Content of a catalogue entry, set by the tenant. */
export interface EventTypeContent {
  readonly description: string | null;
  readonly examples: string;
  readonly deprecatedAt: Date | null;
  readonly replacedBy: string | null;
  readonly archivedAt: Date | null;
}

const COLUMNS =
  raw(`t.name, t.description, t.examples, t.schema_version, s.schema, t.deprecated_at, t.replaced_by,
  t.archived_at, t.created_at, t.updated_at`);
const FROM = raw(`event_types t LEFT JOIN event_type_schemas s
  ON s.tenant_id = t.tenant_id AND s.name = t.name AND s.version = t.schema_version`);

/**
 * Locks the tenant's catalogue until the transaction ends, so that limits and versions stay valid. Returns its size.
 */
export async function lockCatalogue(db: Queryable, tenantId: string): Promise<number> {
  await lockName(db, `event-types/${tenantId}`);
  const { rows } = await db.query<{ count: number }>(
    sql`SELECT count(*) AS count FROM event_types WHERE tenant_id = ${tenantId}`,
  );
  return rows[0]?.count ?? 0;
}

/** Returns false if the catalogue already has the type. */
export async function insertEventType(
  db: Queryable,
  { tenantId, type }: TenantAndType,
  { description, examples, deprecatedAt, replacedBy, archivedAt }: EventTypeContent,
  now: Date,
): Promise<boolean> {
  const { rowCount } = await db.query(
    sql`INSERT INTO event_types (tenant_id, name, description, examples, deprecated_at, replaced_by, archived_at,
        created_at, updated_at)
      VALUES (${tenantId}, ${type}, ${description}, ${examples}, ${deprecatedAt}, ${replacedBy}, ${archivedAt},
        ${now}, ${now})
      ON CONFLICT (tenant_id, name) DO NOTHING`,
  );
  return rowCount === 1;
}

export async function updateEventType(
  db: Queryable,
  { tenantId, type }: TenantAndType,
  { description, examples, deprecatedAt, replacedBy, archivedAt }: EventTypeContent,
  now: Date,
): Promise<void> {
  await db.query(
    sql`UPDATE event_types SET description = ${description}, examples = ${examples}, deprecated_at = ${deprecatedAt},
      replaced_by = ${replacedBy}, archived_at = ${archivedAt}, updated_at = ${now} WHERE tenant_id = ${tenantId} AND name = ${type}`,
  );
}

/** Adds the next version of a type's schema and validates events against it from now on. Returns its number. */
export async function addSchema(
  db: Queryable,
  { tenantId, type }: TenantAndType,
  { text, digest, now }: { readonly text: string; readonly digest: string; readonly now: Date },
): Promise<number> {
  const { rows } = await db.query<{ version: number }>(
    sql`INSERT INTO event_type_schemas (tenant_id, name, version, schema, digest, created_at)
      SELECT ${tenantId}, ${type}, coalesce(max(version), 0) + 1, ${text}, ${digest}, ${now} FROM event_type_schemas
      WHERE tenant_id = ${tenantId} AND name = ${type}
      RETURNING version`,
  );
  const version = rows[0]?.version ?? 0;
  await useSchema(db, { tenantId, type }, version);
  return version;
}

/** Selects the version that events are validated against, or none. Returns false if it does not exist. */
export async function useSchema(
  db: Queryable,
  { tenantId, type }: TenantAndType,
  version: number | null,
): Promise<boolean> {
  const { rowCount } = await db.query(
    sql`UPDATE event_types t SET schema_version = ${version}, schema_digest = s.digest
      FROM (SELECT (SELECT digest FROM event_type_schemas WHERE tenant_id = ${tenantId} AND name = ${type} AND version = ${version}) AS digest) s
      WHERE t.tenant_id = ${tenantId} AND t.name = ${type} AND (${version}::int IS NULL OR s.digest IS NOT NULL)`,
  );
  return rowCount === 1;
}

export async function findEventType(
  db: Queryable,
  { tenantId, type }: TenantAndType,
): Promise<EventTypeRow | undefined> {
  const { rows } = await db.query<EventTypeRow>(
    sql`SELECT ${COLUMNS} FROM ${FROM} WHERE t.tenant_id = ${tenantId} AND t.name = ${type}`,
  );
  return rows[0];
}

/** Returns event types by name, after `after` if given. */
export async function listEventTypes(
  db: Queryable,
  tenantId: string,
  page: { readonly after: string | null; readonly archived: boolean; readonly limit: number },
): Promise<EventTypeRow[]> {
  const { rows } = await db.query<EventTypeRow>(
    sql`SELECT ${COLUMNS} FROM ${FROM} WHERE t.tenant_id = ${tenantId} AND (${page.after}::text IS NULL OR t.name > ${page.after})
      AND (${page.archived} OR t.archived_at IS NULL) ORDER BY t.name LIMIT ${page.limit}`,
  );
  return rows;
}

/** Returns schemas, newest first, before `before` if given. */
export async function listSchemas(
  db: Queryable,
  { tenantId, type }: TenantAndType,
  { before, limit }: { readonly before: number | null; readonly limit: number },
): Promise<SchemaRow[]> {
  const { rows } = await db.query<SchemaRow>(
    sql`SELECT version, schema, created_at FROM event_type_schemas
      WHERE tenant_id = ${tenantId} AND name = ${type} AND (${before}::int IS NULL OR version < ${before}) ORDER BY version DESC LIMIT ${limit}`,
  );
  return rows;
}

/** Deletes an event type and its schemas. Returns false if it does not exist. */
export async function deleteEventType(db: Queryable, { tenantId, type }: TenantAndType): Promise<boolean> {
  const { rowCount } = await db.query(
    sql`DELETE FROM event_types WHERE tenant_id = ${tenantId} AND name = ${type}`,
  );
  return rowCount === 1;
}

/** Returns the schema that events of a type are validated against, if any. */
export async function findSchemaText(
  db: Queryable,
  { tenantId, type }: TenantAndType,
): Promise<{ readonly text: string; readonly digest: string } | undefined> {
  const { rows } = await db.query<{ text: string; digest: string }>({
    name: "find-schema-text",
    ...sql`SELECT s.schema AS text, s.digest FROM event_types t JOIN event_type_schemas s
      ON s.tenant_id = t.tenant_id AND s.name = t.name AND s.version = t.schema_version
      WHERE t.tenant_id = ${tenantId} AND t.name = ${type}`,
  });
  return rows[0];
}
