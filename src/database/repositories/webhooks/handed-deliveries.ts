/** The claim that an insert of events writes for a worker in the same process (decision 42). */
import { lateral, raw, type Statement, sql } from "#database/sql.ts";

/**
 * SQL for the version of a target: it changes with each change of the rows of endpoint `p`, tenant `t` and the secrets. It
 * names their transactions, so it reads no secret and no URL.
 */
export function targetVersion(): string {
  const secrets = (states: string): string =>
    `(SELECT string_agg(v.xmin::text, ',' ORDER BY v.xmin::text) FROM endpoint_secrets v
      WHERE v.endpoint_id = p.id AND v.state ${states})`;
  return `concat_ws(' ', p.xmin, t.xmin, ${secrets("= 'CURRENT'")}, ${secrets("IN ('NEXT', 'PREVIOUS')")})`;
}

/** SQL that notes lists whose workflow has not been started, and adds to those that are noted. A SELECT stands between. */
export const NOTE_LISTS =
  "INSERT INTO unstarted_lists AS l (carrier, worker, first_day, last_day, first_id, last_id, opened_at)";
export const NOTED_BEFORE = `ON CONFLICT (carrier) DO UPDATE SET
          first_day = least(l.first_day, excluded.first_day), first_id = least(l.first_id, excluded.first_id),
          last_day = greatest(l.last_day, excluded.last_day), last_id = greatest(l.last_id, excluded.last_id)`;

/** Deliveries that a worker in this process takes over at their insert (decision 42). */
export interface HandedDeliveries {
  /** The worker that claims them. */
  readonly worker: string;
  /** Their carriers. */
  readonly carriers: ReadonlyMap<string, string>;
  /** The versions of their endpoints ({@link targetVersion}). The delivery waits in the outbox if it is not current. */
  readonly versions: ReadonlyMap<string, string>;
}

/** The parts of the insert that write the claim of {@link HandedDeliveries}; empty without any. */
export function handOverParts(
  handed: HandedDeliveries | undefined,
  deliveryIds: readonly string[],
  now: Date,
): Readonly<Record<"given" | "name" | "current" | "columns" | "values" | "noted" | "result", Statement>> {
  if (handed === undefined) {
    const none = raw("");
    return { given: none, name: none, current: none, columns: none, values: none, noted: none, result: none };
  }
  const { worker, carriers, versions } = handed;
  const isHanded = raw("d.carrier IS NOT NULL AND d.endpoint_id IN (SELECT id FROM current_targets)");
  return {
    given: sql`, ${deliveryIds.map((id) => carriers.get(id) ?? null)}::text[]`,
    name: raw(", carrier"),
    current: sql`current_targets AS MATERIALIZED (
      SELECT p.id FROM unnest(${[...versions.keys()]}::text[], ${[...versions.values()]}::text[]) AS w(id, version)
      CROSS JOIN ${raw(lateral("endpoints", "p", "id = w.id", "xmin, id, tenant_id"))}
      CROSS JOIN ${raw(lateral("tenants", "t", "id = p.tenant_id", "xmin, held_at"))}
      WHERE t.held_at IS NULL AND ${raw(targetVersion())} = w.version
    ), `,
    columns: raw(", carrier, claimed_at, claimed_by"),
    values: sql`, CASE WHEN ${isHanded} THEN d.carrier END, CASE WHEN ${isHanded} THEN ${now}::timestamptz END,
      CASE WHEN ${isHanded} THEN ${worker}::text END`,
    noted: sql`noted AS (
      ${raw(NOTE_LISTS)} SELECT carrier, ${worker}::text, min(day), max(day), min(id), max(id), ${now}::timestamptz
      FROM outbox WHERE carrier IS NOT NULL GROUP BY carrier ORDER BY carrier ${raw(NOTED_BEFORE)}
    ), `,
    result: raw(", (SELECT array_agg(id) FROM outbox WHERE carrier IS NOT NULL) AS handed"),
  };
}
