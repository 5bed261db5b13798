/** Resources of a test file in the `system` project: a database, a Temporal namespace. */
import { randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Connection } from "@temporalio/client";
import { afterAll, beforeAll, inject } from "vitest";
import { hasCode } from "../../src/processes/embedded/start-up-error.ts";
import { ensureNamespace } from "../../src/temporal/namespace.ts";
import { copyTemplate, type TestDatabase } from "./test-database.ts";

export type { TestDatabase } from "./test-database.ts";

/**
 * Returns a namespace that no other file in this run uses. Task queues have fixed names, so each file that runs workers
 * needs its own. Takes a prepared namespace if one is left, else creates one.
 */
export async function testNamespace(
  prepared: readonly string[] = inject("temporalNamespaces"),
): Promise<string> {
  for (const namespace of prepared) {
    try {
      // Only one process can succeed in creating the directory.
      await mkdir(join(inject("runDirectory"), "namespaces", namespace));
      return namespace;
    } catch (error) {
      if (!hasCode(error, "EEXIST")) {
        throw error;
      }
    }
  }
  const namespace = `x${randomBytes(6).toString("hex")}`;
  const connection = await Connection.connect({ address: inject("temporalAddress") });
  try {
    await ensureNamespace(connection, { namespace });
  } finally {
    await connection.close();
  }
  return namespace;
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
