/** A PostgreSQL as a provider manages it: the owner of the databases may create roles, and is no superuser. */
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { inject } from "vitest";
import { prepareSystemPostgres } from "../bench/environment/system-postgres.ts";
import { freePort } from "./free-port.ts";
import { execute, SERVICE_LOGIN, type TestDatabase, THROWN_AWAY, withDatabase } from "./test-database.ts";

export const OWNER = { user: "owner", password: "owner" };

/** A server of its own, because roles belong to the whole server. */
export interface ManagedServer {
  readonly directory: string;
  readonly superuserUrl: string;
  close(): Promise<void>;
}

/** Starts a server. @param programs directory of PostgreSQL's programs */
export async function startManagedServer(programs: string): Promise<ManagedServer> {
  const directory = await mkdtemp(join(inject("runDirectory"), "managed-"));
  await chmod(directory, 0o755);
  const port = await freePort();
  const { url, launch } = await prepareSystemPostgres({ programs, directory, port, settings: THROWN_AWAY });
  const launched = await launch();
  // What a provider's console does.
  await execute(
    url,
    `CREATE ROLE ${OWNER.user} LOGIN CREATEROLE NOSUPERUSER NOBYPASSRLS PASSWORD '${OWNER.password}'`,
  );
  return {
    directory,
    superuserUrl: url,
    close: async () => {
      await launched.stop();
      await rm(directory, { recursive: true });
    },
  };
}

export type ManagedDatabase = TestDatabase & { readonly ownerUrl: string };

/** Returns a database of the server, with the URLs of its logins. */
export function databaseOf(
  { superuserUrl }: Pick<ManagedServer, "superuserUrl">,
  name: string,
): ManagedDatabase {
  return {
    name,
    url: withDatabase(superuserUrl, name, SERVICE_LOGIN),
    adminUrl: withDatabase(superuserUrl, name),
    ownerUrl: withDatabase(superuserUrl, name, OWNER),
    drop: async () => await Promise.resolve(),
  };
}
