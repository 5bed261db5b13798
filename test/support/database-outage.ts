/** Outages of one test's database; the server and other databases keep running. */
import { Client } from "pg";
import { inject } from "vitest";

/** The service that uses the database. */
interface Service {
  readonly config: { readonly databaseUrl: string };
}

async function asSuperuser(...statements: readonly string[]): Promise<void> {
  const client = new Client({ connectionString: inject("databaseUrl") });
  await client.connect();
  try {
    for (const statement of statements) {
      await client.query(statement);
    }
  } finally {
    await client.end();
  }
}

function nameOf({ config }: Service): string {
  return new URL(config.databaseUrl).pathname.slice(1);
}

function terminate(database: string): string {
  return `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${database}'`;
}

/** Breaks every connection of the world's workers to its database, whatever they are doing. */
export async function breakWorkerConnections(world: Service): Promise<void> {
  await asSuperuser(
    `${terminate(nameOf(world))} AND application_name IN ('signet_worker', 'signet_listener')`,
  );
}

/** Breaks every connection and refuses new ones. */
export async function stopDatabase(world: Service): Promise<void> {
  const database = nameOf(world);
  await asSuperuser(`ALTER DATABASE ${database} WITH ALLOW_CONNECTIONS false`, terminate(database));
}

/** Accepts connections again. */
export async function startDatabase(world: Service): Promise<void> {
  await asSuperuser(`ALTER DATABASE ${nameOf(world)} WITH ALLOW_CONNECTIONS true`);
}
