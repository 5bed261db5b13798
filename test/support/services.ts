/** Resources of a test file in the `system` project: a database, a Temporal namespace. */
import { afterAll, beforeAll, inject } from "vitest";
import { takeNamespace } from "./temporal-namespaces.ts";
import { copyTemplate, type TestDatabase } from "./test-database.ts";

export type { TestDatabase } from "./test-database.ts";

/** Returns a namespace that no other file in this run uses. */
export async function testNamespace(
  temporalNamespaces: readonly string[] = inject("temporalNamespaces"),
): Promise<string> {
  const [runDirectory, temporalAddress] = [inject("runDirectory"), inject("temporalAddress")];
  return await takeNamespace({ runDirectory, temporalAddress, temporalNamespaces });
}

/** Creates a migrated, empty database. The caller drops it, or the end of the run does. */
export async function createTestDatabase(): Promise<TestDatabase> {
  return await copyTemplate(inject("databaseUrl"));
}

interface ResultTree {
  readonly result?: { readonly state?: string } | undefined;
  readonly tasks?: readonly ResultTree[];
}

function hasFailed(task: ResultTree): boolean {
  return task.result?.state === "fail" || (task.tasks ?? []).some(hasFailed);
}

/**
 * Provides a migrated, empty database to the calling file or `describe`, created before its tests and dropped after
 * them. After a failure it remains, for inspection with `SIGNET_TEST_KEEP=1`.
 */
export function useTestDatabase(): Omit<TestDatabase, "drop"> {
  let database: TestDatabase | undefined;
  const made = (): TestDatabase => {
    if (database === undefined) {
      throw new Error("the test database is created in beforeAll; use it in tests and later hooks");
    }
    return database;
  };
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  // oxlint-disable-next-line no-empty-pattern -- vitest requires a destructured first argument
  afterAll(async ({}, suite) => {
    if (!hasFailed(suite)) {
      await database?.drop();
    }
  });
  return {
    get name() {
      return made().name;
    },
    get url() {
      return made().url;
    },
    get adminUrl() {
      return made().adminUrl;
    },
  };
}
