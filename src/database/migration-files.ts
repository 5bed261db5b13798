/** The migrations of this build, `migrations/NNNN-name.sql`, and how far a database has come. */
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { SignetError } from "#domain/errors.ts";
import type { Queryable } from "./pool.ts";

const MIGRATIONS = new URL("./migrations/", import.meta.url);

/**
 * Files whose text was changed after databases had applied them, because it held locks while it read stored rows, with
 * the SHA-256 of their first text (decision 36). Both texts lead to the same schema. The first one's is recorded, so that
 * older versions start, too.
 */
const FIRST_TEXTS: Readonly<Record<string, string>> = {
  "0038-endpoints-that-are-gone.sql": "03ae3eec10951ee5e711be3e0acaf8e0e4730eee7041619f93ecb3d242171ae0",
  "0039-policies-over-the-revocations.sql":
    "47b44f7b9e254eeba94faf81289243e4bb428d2aabec2864ea5c9cf946704f01",
  "0046-delivery-counts.sql": "31350942256ef37e40a084faad8d4bc67e1bd2848f339dfb19603fe1b94f5dae",
  "0048-resends.sql": "28c434d06966cef882d5c0c33c1ddaf0dddf3d98bdbc2eb589f71b11c7ef2d92",
  "0049-portal-brands-and-names.sql": "a1331705664d66317e5807b3caa733353077acdd7d808ae467b8438010c7937b",
  "0054-cells.sql": "c59aeb1d33590e1d5f4a1d16e95498a1b919f63c91a508da10170e35417018a4",
};

export interface MigrationFile {
  readonly version: number;
  readonly name: string;
  readonly sql: string;
  /** SHA-256 that is recorded when it is applied. */
  readonly sha256: string;
}

async function readAll(): Promise<MigrationFile[]> {
  const names = (await readdir(MIGRATIONS)).filter((name) => /^\d{4}-[a-z0-9-]+\.sql$/.test(name)).sort();
  const files: MigrationFile[] = [];
  for (const name of names) {
    const sql = await readFile(new URL(name, MIGRATIONS), "utf8");
    files.push({
      version: Number(name.slice(0, 4)),
      name,
      sql,
      sha256: FIRST_TEXTS[name] ?? createHash("sha256").update(sql).digest("hex"),
    });
  }
  return files;
}

let migrations: Promise<readonly MigrationFile[]> | undefined;

/**
 * Returns the migrations in order. Reads one file at a time and each only once: `/readyz` asks every second, also in a
 * process that has few descriptors left.
 */
export async function readMigrations(): Promise<readonly MigrationFile[]> {
  migrations ??= readAll().catch((error: unknown) => {
    migrations = undefined;
    throw error;
  });
  return await migrations;
}

/** A database's schema, compared to this build. Later migrations do not count. */
export interface SchemaState {
  /** Migrations that have not been applied, in order. */
  readonly pending: readonly MigrationFile[];
  /** The first file that has changed since it was applied. */
  readonly changed: string | undefined;
}

/** Compares the applied migrations to those of this build. */
export async function readSchemaState(db: Queryable): Promise<SchemaState> {
  const { rows } = await db.query<{ version: number; sha256: string }>(
    "SELECT version, sha256 FROM schema_migrations",
  );
  const applied = new Map(rows.map(({ version, sha256 }) => [version, sha256]));
  const files = await readMigrations();
  return {
    pending: files.filter(({ version }) => !applied.has(version)),
    changed: files.find(({ version, sha256 }) => (applied.get(version) ?? sha256) !== sha256)?.name,
  };
}

/**
 * Checks the schema. Called when a process starts and by /readyz. Later migrations are no obstacle.
 *
 * @throws if a migration of this build has not been applied
 */
export async function requireCurrentSchema(db: Queryable): Promise<void> {
  const { pending, changed } = await readSchemaState(db);
  if (pending.length > 0 || changed !== undefined) {
    throw new SignetError("UNAVAILABLE", {
      detail: "the database schema is not up to date: run `signet migrate`",
    });
  }
}
