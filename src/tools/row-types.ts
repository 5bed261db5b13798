/**
 * The types of rows, from the migrated schema: `npm run docs` writes them to {@link ROW_TYPES}. The generator is this
 * small because the service uses few types. Kanel does the same with nine dependencies and a configuration.
 */
import { Client } from "pg";

export const ROW_TYPES = "src/database/rows.ts";

const HEAD = `/** The types of rows, from the migrated schema: \`npm run docs\` writes this file. */

/** The tables, each with the type of its rows. Partitions are not listed. */
interface Tables {
`;

const FOOT = `}

/** A row of a table, or the members of it that a statement reads. */
export type Row<Table extends keyof Tables, Columns extends keyof Tables[Table] = keyof Tables[Table]> = Pick<
  Tables[Table],
  Columns
>;
`;

/** The types that the driver returns, with the parsers of src/database/pool.ts. */
const TYPES: Readonly<Record<string, string>> = {
  name: "string",
  text: "string",
  bytea: "Buffer",
  bool: "boolean",
  int2: "number",
  int4: "number",
  int8: "number",
  float4: "number",
  float8: "number",
  timestamptz: "Date",
  date: "string",
  uuid: "string",
  xid8: "string",
  json: "unknown",
  jsonb: "unknown",
  int4multirange: "string",
};

interface Column {
  readonly table: string;
  readonly column: string;
  readonly type: string;
  readonly required: boolean;
  /** Definitions of the check constraints that concern this column alone. */
  readonly checks: readonly string[];
}

const COLUMNS = `SELECT c.relname AS table, a.attname AS column, t.typname AS type, a.attnotnull AS required,
    ARRAY(SELECT pg_get_constraintdef(k.oid) FROM pg_constraint k
      WHERE k.conrelid = c.oid AND k.contype = 'c' AND k.conkey = ARRAY[a.attnum]) AS checks
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid
  WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    AND a.attnum > 0 AND NOT a.attisdropped
  ORDER BY c.relname COLLATE "C", a.attnum`;

/** As PostgreSQL writes `CHECK (state IN ('A', 'B'))`. */
const CHOICE = /^CHECK \(\(\w+ = ANY \(ARRAY\[('[^\]]*'::text)\]\)\)\)$/;

/** Returns the values that a check admits, as a union. */
function choices(checks: readonly string[]): string | undefined {
  const [list] = checks.flatMap((check) => CHOICE.exec(check)?.[1] ?? []);
  return list
    ?.split(", ")
    .map((value) => JSON.stringify(value.replace(/^'(.*)'::text$/, "$1")))
    .join(" | ");
}

function typeOf({ table, column, type, required, checks }: Column): string {
  const element = type.startsWith("_") ? type.slice(1) : type;
  const known = TYPES[element];
  if (known === undefined) {
    throw new Error(`${table}.${column} has the type ${type}, which src/tools/row-types.ts does not know`);
  }
  const value = element === type ? (choices(checks) ?? known) : `readonly ${known}[]`;
  return required || value === "unknown" ? value : `${value} | null`;
}

/** Returns the text of {@link ROW_TYPES} for a migrated database. */
export async function rowTypes(databaseUrl: string): Promise<string> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  const { rows } = await client.query<Column>(COLUMNS);
  await client.end();
  const tables = [...Map.groupBy(rows, ({ table }) => table)].map(([table, columns]) => {
    const members = columns.map((column) => `    readonly ${column.column}: ${typeOf(column)};\n`);
    return `  readonly ${table}: {\n${members.join("")}  };\n`;
  });
  return `${HEAD}${tables.join("")}${FOOT}`;
}
