/** Inserts many dead letters without the engine: rows as 17 failures leave them. */
import { randomBytes } from "node:crypto";
import { newId } from "#domain/ids.ts";

interface Sql {
  query(text: string, values: unknown[]): Promise<unknown>;
}

export interface SeededLetters {
  readonly tenantId: string;
  readonly endpointId: string;
  readonly count: number;
  /** Unix milliseconds at which they were accepted. */
  readonly atMs?: number;
  readonly error?: string;
  readonly expiresInMs?: number;
}

const TIME_LENGTH = 10;
const WEEK_MS = 604_800_000;

/** Returns an id up to its random bits. Any digits appended to it make ids of the same day. */
function idStart(noun: "event" | "delivery", atMs: number): string {
  const id = newId(noun, atMs, randomBytes);
  return id.slice(0, id.indexOf("_") + 1 + TIME_LENGTH);
}

let calls = 0;

/** Inserts the rows in one statement; returns the ids, oldest first. */
export async function seedDeadLetters(sql: Sql, letters: SeededLetters): Promise<string[]> {
  const { tenantId, endpointId, count, atMs = Date.now(), error = "status", expiresInMs = WEEK_MS } = letters;
  calls += 1;
  const salt = `${String(process.pid).slice(-4)}${String(calls).padStart(3, "0")}`;
  const [event, delivery] = [idStart("event", atMs) + salt, idStart("delivery", atMs) + salt];
  const width = 24 - TIME_LENGTH - salt.length;
  const day = new Date(atMs).toISOString().slice(0, 10);
  await sql.query(
    `WITH n AS (SELECT lpad(i::text, $1::int, '0') AS n FROM generate_series(1, $2::int) i), made AS (
        INSERT INTO events (day, id, tenant_id, type, data, occurred_at, deliveries, created_at)
        SELECT $3::date, $4 || n, $5, 'inference.completed', '{}', $6, 1, $6 FROM n
      ), counted AS (
        INSERT INTO delivery_changes (tenant_id, endpoint_id, event_type, hour, accepted)
        SELECT $5, $8, 'inference.completed', date_trunc('hour', $6::timestamptz, 'UTC'), $2
      )
      INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, reason, attempt_count, cycle_started_at,
        last_status, last_error, created_at, dead_lettered_at, expires_at)
      SELECT $3::date, $7 || n, $5, $4 || n, 'inference.completed', $8, 'DEAD_LETTERED', 'attempts_exhausted', 17, $6,
        CASE WHEN $9 = 'status' THEN 500 END, $9, $6, now(), now() + $10::bigint * interval '1 millisecond' FROM n`,
    [width, count, day, event, tenantId, new Date(atMs), delivery, endpointId, error, expiresInMs],
  );
  return Array.from({ length: count }, (_, index) => delivery + String(index + 1).padStart(width, "0"));
}
