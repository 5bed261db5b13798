/** The try-out that docs/releasing.md has for the image. test/containers has the image itself. */
import { chown, mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import type { Environment } from "#config/config.ts";
import { eventually } from "../support/eventually.ts";
import { freePorts } from "../support/free-port.ts";
import { allowMinutes } from "../support/limits.ts";
import { imageEnvironment, productionImage, spawnProcess } from "../support/processes.ts";
import { createTestDatabase, testNamespace, type TestDatabase } from "../support/services.ts";

allowMinutes(5);

/** Debian's user without rights. */
const NOBODY = 65_534;

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase();
});

afterAll(async () => {
  await database?.drop();
});

/** Returns the environment of the documented `docker run … serve`. */
async function documentedEnvironment(): Promise<Environment> {
  const document = await readFile(join(import.meta.dirname, "..", "..", "docs", "releasing.md"), "utf8");
  const [command = ""] = /^docker run [\s\S]*? serve$/m.exec(document) ?? [];
  const given = [...command.matchAll(/--env (\w+)=(\S+)/g)].map(([, name = "", value = ""]) => [name, value]);
  expect(given.length).toBeGreaterThan(4);
  return Object.fromEntries(given) as Environment;
}
test("tries out the whole service on a given PostgreSQL and Temporal, by a user who cannot write there", async () => {
  const home = join(inject("runDirectory"), "image-home");
  await mkdir(home);
  const isRoot = process.getuid?.() === 0;
  if (isRoot) {
    await chown(home, NOBODY, NOBODY);
  }
  const [api, admin, edge, metrics] = await freePorts(4);
  const user = isRoot ? ["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"] : [];
  const serve = spawnProcess({
    command: [...user, process.execPath, "dist/src/processes/main.js", "serve"],
    cwd: productionImage(),
    environment: {
      ...imageEnvironment(),
      ...(await documentedEnvironment()),
      SIGNET_HOME: home,
      SIGNET_DATABASE_URL: database.adminUrl,
      TEMPORAL_ADDRESS: inject("temporalAddress"),
      TEMPORAL_NAMESPACE: await testNamespace(),
      SIGNET_API_LISTEN: `0.0.0.0:${api}`,
      SIGNET_PUBLIC_URL: `http://localhost:${api}`,
      SIGNET_ADMIN_LISTEN: `127.0.0.1:${admin}`,
      SIGNET_EDGE_LISTEN: `127.0.0.1:${edge}`,
      SIGNET_METRICS_LISTEN: `127.0.0.1:${metrics}`,
    },
  });
  await eventually(
    () => serve.state() !== undefined || /^.*signet ready/m.test(serve.output()),
    "serve",
    120_000,
  );
  expect(serve.state(), serve.output()).toBeUndefined();
  expect((await fetch(`http://127.0.0.1:${metrics}/readyz`)).ok).toBe(true);
  expect((await serve.stop()).code).toBe(0);
});
