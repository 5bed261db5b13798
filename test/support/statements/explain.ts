/** Plans of statements as the worker's pool makes them: for any values. */
import { type ClientBase, escapeLiteral } from "pg";
import type { Queryable } from "#database/pool.ts";

/** Writes a statement's value into its text. */
function literal(value: unknown): string {
  if (value === null) {
    return "NULL";
  }
  const text = (one: unknown): string => (one instanceof Date ? one.toISOString() : String(one));
  const array = Array.isArray(value)
    ? `{${value.map((one) => (one === null ? "NULL" : `"${text(one)}"`)).join(",")}}`
    : text(value);
  return escapeLiteral(array);
}

/**
 * Returns what explains the statements that it gets. Each finds no rows.
 *
 * @param lines gets the lines of their plans
 * @param options of EXPLAIN, such as `ANALYZE`
 */
export function explaining(client: ClientBase, lines: string[], options: readonly string[] = []): Queryable {
  return {
    query: (async ({ text, values = [] }: { text: string; values?: unknown[] }) => {
      await client.query("SET LOCAL plan_cache_mode = force_generic_plan");
      await client.query(`PREPARE explained AS ${text}`);
      const given = values.length === 0 ? "" : ` (${values.map(literal).join(", ")})`;
      const how = options.length === 0 ? "" : ` (${options.join(", ")})`;
      const { rows } = await client.query<{ "QUERY PLAN": string }>(
        `EXPLAIN${how} EXECUTE explained${given}`,
      );
      await client.query("DEALLOCATE explained");
      lines.push(...rows.map((row) => row["QUERY PLAN"]));
      return { rows: [] };
    }) as never,
  };
}
