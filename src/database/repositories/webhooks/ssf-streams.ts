/** Streams of security events: their settings, removed subjects and unacknowledged tokens (migration 0051). */
import { idDay } from "#domain/ids.ts";
import type { StreamStatus } from "#domain/security-events.ts";
import type { EndpointState } from "#domain/endpoint-state.ts";
import { lockName } from "#database/lock-name.ts";
import type { Queryable } from "#database/pool.ts";
import type { Row } from "#database/rows.ts";
import { raw, sql } from "#database/sql.ts";

/** A stream as stored. */
export interface StreamRow {
  readonly id: string;
  readonly tenant_id: string;
  readonly issuer: string;
  /** The endpoint that its tokens are pushed to; null for polling. */
  readonly endpoint_id: string | null;
  /** Null for every supported type. */
  readonly events_requested: readonly string[] | null;
  readonly description: string | null;
  readonly status: StreamStatus;
  readonly status_reason: string | null;
}

/** A stream with what a receiver sees of its endpoint. */
export interface Stream extends StreamRow {
  /** Null for polling. */
  readonly url: string | null;
  readonly endpoint_state: EndpointState | null;
  readonly disabled_reason: string | null;
}

const COLUMNS = `s.id, s.tenant_id, s.issuer, s.endpoint_id,
  s.events_requested, s.description, s.status, s.status_reason`;

const STREAM = raw(`${COLUMNS}, e.url, e.state AS endpoint_state, e.disabled_reason
  FROM ssf_streams s LEFT JOIN endpoints e ON e.id = s.endpoint_id`);

/** Locks the number of a tenant's streams until the transaction ends, and returns it (role signet_api). */
export async function countStreams(db: Queryable, tenantId: string): Promise<number> {
  await lockName(db, `ssf_streams/${tenantId}`);
  const { rows } = await db.query<{ count: number }>(
    sql`SELECT count(*) AS count FROM ssf_streams WHERE tenant_id = ${tenantId}`,
  );
  return rows[0]?.count ?? 0;
}

/** Adds a stream, `enabled` (role signet_api). */
export async function insertStream(
  db: Queryable,
  stream: Omit<StreamRow, "status" | "status_reason">,
  now: Date,
): Promise<void> {
  const { id, tenant_id, issuer, endpoint_id, events_requested, description } = stream;
  await db.query(
    sql`INSERT INTO ssf_streams (id, tenant_id, issuer, endpoint_id, events_requested, description, created_at)
      VALUES (${id}, ${tenant_id}, ${issuer}, ${endpoint_id}, ${events_requested}, ${description}, ${now})`,
  );
}

/** Returns a tenant's streams, oldest first. There are few. */
export async function listStreams(db: Queryable, tenantId: string): Promise<Stream[]> {
  const { rows } = await db.query<Stream>(
    sql`SELECT ${STREAM} WHERE s.tenant_id = ${tenantId} ORDER BY s.id`,
  );
  return rows;
}

export async function findStream(db: Queryable, tenantId: string, id: string): Promise<Stream | undefined> {
  const { rows } = await db.query<Stream>({
    name: "find-ssf-stream",
    ...sql`SELECT ${STREAM} WHERE s.id = ${id} AND s.tenant_id = ${tenantId}`,
  });
  return rows[0];
}

/**
 * Like {@link findStream}, but locks the stream until the transaction ends: no event is published to it meanwhile, and
 * later ones are published by its new status.
 */
export async function lockStream(db: Queryable, tenantId: string, id: string): Promise<Stream | undefined> {
  const { rowCount } = await db.query(
    sql`SELECT FROM ssf_streams WHERE id = ${id} AND tenant_id = ${tenantId} FOR UPDATE`,
  );
  // Its endpoint is read afterwards: the transaction that held the lock may have changed it.
  return rowCount === 0 ? undefined : await findStream(db, tenantId, id);
}

/** Stores what a receiver may change of a stream. */
export async function saveStream(
  db: Queryable,
  { id, tenant_id, events_requested, description, status, status_reason }: StreamRow,
): Promise<void> {
  await db.query(
    sql`UPDATE ssf_streams SET events_requested = ${events_requested}, description = ${description},
        status = ${status}, status_reason = ${status_reason}
      WHERE id = ${id} AND tenant_id = ${tenant_id}`,
  );
}

/** Removes a stream with its removed subjects and unacknowledged tokens. */
export async function deleteStream(db: Queryable, tenantId: string, id: string): Promise<void> {
  await db.query(sql`DELETE FROM ssf_streams WHERE id = ${id} AND tenant_id = ${tenantId}`);
}

/** Notes a request for a verification event. Returns false if the last one was after `since`. */
export async function takeVerification(
  db: Queryable,
  { tenantId, id, now, since }: { tenantId: string; id: string; now: Date; since: Date },
): Promise<boolean> {
  const { rowCount } = await db.query(
    sql`UPDATE ssf_streams SET verification_at = ${now}
      WHERE id = ${id} AND tenant_id = ${tenantId} AND (verification_at IS NULL OR verification_at <= ${since})`,
  );
  return rowCount === 1;
}

/** Returns the number of subjects that a stream does not get. */
export async function countRemovedSubjects(db: Queryable, streamId: string): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    sql`SELECT count(*) AS count FROM ssf_removed_subjects WHERE stream_id = ${streamId}`,
  );
  return rows[0]?.count ?? 0;
}

/** Removes a subject from a stream. Removing it again changes nothing. */
export async function removeSubject(
  db: Queryable,
  { tenantId, id, subject }: { tenantId: string; id: string; subject: string },
): Promise<boolean> {
  const { rowCount } = await db.query(
    sql`INSERT INTO ssf_removed_subjects (stream_id, subject, tenant_id) VALUES (${id}, ${subject}, ${tenantId})
      ON CONFLICT DO NOTHING`,
  );
  return rowCount === 1;
}

/** Adds a removed subject again. */
export async function addSubject(
  db: Queryable,
  { tenantId, id, subject }: { tenantId: string; id: string; subject: string },
): Promise<boolean> {
  const { rowCount } = await db.query(
    sql`DELETE FROM ssf_removed_subjects
      WHERE stream_id = ${id} AND subject = ${subject} AND tenant_id = ${tenantId}`,
  );
  return rowCount === 1;
}

/** Returns a tenant's streams that are not disabled, locked against changes of their status (role signet_ingest). */
export async function lockTakingStreams(db: Queryable, tenantId: string): Promise<StreamRow[]> {
  const { rows } = await db.query<StreamRow>({
    name: "lock-taking-ssf-streams",
    ...sql`SELECT ${raw(COLUMNS)} FROM ssf_streams s
      WHERE s.tenant_id = ${tenantId} AND s.status <> 'disabled' ORDER BY s.id FOR SHARE`,
  });
  return rows;
}

/** Returns which of the streams have removed one of the subjects (role signet_ingest). */
export async function streamsWithout(
  db: Queryable,
  streamIds: readonly string[],
  subjects: readonly string[],
): Promise<ReadonlySet<string>> {
  const { rows } = await db.query<{ stream_id: string }>(
    sql`SELECT DISTINCT stream_id FROM ssf_removed_subjects
      WHERE stream_id = ANY (${streamIds}) AND subject = ANY (${subjects})`,
  );
  return new Set(rows.map((row) => row.stream_id));
}

/** Returns the client id and the principal of a credential (a role that reads credentials, which signet_ingest is not). */
export async function findHolder(
  db: Queryable,
  tenantId: string,
  credentialId: string,
): Promise<Row<"credentials", "client_id" | "principal_id"> | undefined> {
  const { rows } = await db.query<Row<"credentials", "client_id" | "principal_id">>(
    sql`SELECT client_id, principal_id FROM credentials
      WHERE id = ${credentialId} AND tenant_id = ${tenantId}`,
  );
  return rows[0];
}

/** A token that waits for its receiver. */
export interface NewPolledSet {
  readonly id: string;
  readonly streamId: string;
  readonly tenantId: string;
  readonly eventId: string;
}

/** Adds tokens to the queues of streams (role signet_ingest). */
export async function insertPolledSets(
  db: Queryable,
  sets: readonly NewPolledSet[],
  now: Date,
): Promise<void> {
  await db.query(
    sql`INSERT INTO ssf_polled_sets (stream_id, id, tenant_id, event_id, created_at)
      SELECT *, ${now}::timestamptz FROM unnest(
        ${sets.map(({ streamId }) => streamId)}::text[], ${sets.map(({ id }) => id)}::text[],
        ${sets.map(({ tenantId }) => tenantId)}::text[], ${sets.map(({ eventId }) => eventId)}::text[])`,
  );
}

/** Returns which of the streams have `max` tokens or more in their queues (role signet_ingest). */
export async function fullStreams(
  db: Queryable,
  streamIds: readonly string[],
  max: number,
): Promise<ReadonlySet<string>> {
  const { rows } = await db.query<{ id: string }>(
    sql`SELECT s.id FROM unnest(${streamIds}::text[]) AS s(id)
      WHERE (SELECT count(*) FROM (SELECT FROM ssf_polled_sets p WHERE p.stream_id = s.id LIMIT ${max}) w) = ${max}`,
  );
  return new Set(rows.map(({ id }) => id));
}

/** Disables streams (role signet_ingest). */
export async function disableStreams(
  db: Queryable,
  streamIds: readonly string[],
  reason: string,
): Promise<void> {
  await db.query(
    sql`UPDATE ssf_streams SET status = 'disabled', status_reason = ${reason} WHERE id = ANY (${streamIds})`,
  );
}

/** A token of a queue, with its event. */
export interface PolledSet {
  readonly id: string;
  readonly event_id: string;
  readonly occurred_at: Date;
  /** Null once it is erased or gone. */
  readonly content: Buffer | null;
}

/** Returns the oldest tokens of a stream's queue that are newer than `since`. */
export async function listPolledSets(
  db: Queryable,
  { tenantId, streamId, since, limit }: { tenantId: string; streamId: string; since: Date; limit: number },
): Promise<PolledSet[]> {
  const queued = await db.query<{ id: string; event_id: string }>({
    name: "list-polled-sets",
    ...sql`SELECT id, event_id FROM ssf_polled_sets
      WHERE stream_id = ${streamId} AND tenant_id = ${tenantId} AND created_at > ${since} ORDER BY id LIMIT ${limit}`,
  });
  if (queued.rows.length === 0) {
    return [];
  }
  const ids = queued.rows.map(({ id }) => id);
  const events = queued.rows.map(({ event_id: eventId }) => eventId);
  const { rows } = await db.query<PolledSet>({
    name: "read-polled-sets",
    ...sql`SELECT q.id, q.event_id, e.occurred_at, e.content
      FROM unnest(${ids}::text[], ${events}::text[], ${events.map(idDay)}::date[]) AS q(id, event_id, day)
      LEFT JOIN events e ON e.day = q.day AND e.id = q.event_id AND e.tenant_id = ${tenantId} ORDER BY q.id`,
  });
  return rows;
}

/** Removes tokens from a stream's queue. Returns those that were in it. */
export async function deletePolledSets(
  db: Queryable,
  { tenantId, streamId, ids }: { tenantId: string; streamId: string; ids: readonly string[] },
): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    sql`DELETE FROM ssf_polled_sets
      WHERE stream_id = ${streamId} AND tenant_id = ${tenantId} AND id = ANY (${ids}) RETURNING id`,
  );
  return rows.map(({ id }) => id);
}

/** Removes tokens that nobody has acknowledged (role signet_worker). */
export async function forgetPolledSets(db: Queryable, before: Date, limit: number): Promise<number> {
  const { rowCount } = await db.query(
    sql`DELETE FROM ssf_polled_sets WHERE (stream_id, id) IN (
      SELECT stream_id, id FROM ssf_polled_sets WHERE created_at < ${before} ORDER BY created_at LIMIT ${limit})`,
  );
  return rowCount ?? 0;
}
