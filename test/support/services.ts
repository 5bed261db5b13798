/** What a test file of the `system` project gets for itself: a database, a Temporal namespace. */
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
 * A namespace that nobody else in this run has. Task queues have fixed names, so each file that runs workers needs
 * its own. The prepared ones are free; when they are used up, one more is made.
 */
export async function testNamespace(
  prepared: readonly string[] = inject("temporalNamespaces"),
): Promise<string> {
  for (const namespace of prepared) {
    try {
      // Making a directory is what two processes cannot both succeed in.
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

/** A migrated, empty database. The caller drops it; the run's end does at the latest. */
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
 * A migrated, empty database for the file or `describe` that calls this: made before its tests, dropped after them.
 * When one has failed it stays, for `SIGNET_TEST_KEEP=1` to look at.
 */
export function useTestDatabase(): Omit<TestDatabase, "drop"> {
  let database: TestDatabase | undefined;
  const made = (): TestDatabase => {
    if (database === undefined) {
      throw new Error("the test database is made in beforeAll: use it in tests and later hooks");
    }
    return database;
  };
  beforeAll(async () => {
    database = await createTestDatabase();
  });
  // oxlint-disable-next-line no-empty-pattern -- vitest takes nothing but a destructured first argument
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
