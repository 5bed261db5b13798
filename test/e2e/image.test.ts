/** The image: its content, made by the Dockerfile's own instructions, and the whole service run from it. */
import { chmod, chown, lstat, mkdir, mkdtemp, readdir, readFile, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import type { Environment } from "../../src/config/config.ts";
import { VERSION } from "../../src/runtime/package.ts";
import { eventually } from "../support/eventually.ts";
import { freePorts } from "../support/free-port.ts";
import { buildImages } from "../support/image-build.ts";
import { allowMinutes } from "../support/limits.ts";
import { runProcess, spawnProcess } from "../support/processes.ts";
import { createTestDatabase, testNamespace, type TestDatabase } from "../support/services.ts";
import { lacks } from "../support/skips.ts";

allowMinutes(10);

const MB = 1_000_000;
/** Unpacked, beside Node. */
const SIZE_MAX = 250 * MB;
/** Debian's user without rights. */
const NOBODY = 65_534;

const unreachable = lacks("the image", "npm view fastify version");

/** Returns the environment of the documented `docker run … serve`. */
async function documentedEnvironment(): Promise<Environment> {
  const document = await readFile(join(import.meta.dirname, "..", "..", "docs", "releasing.md"), "utf8");
  const [command = ""] = /^docker run [\s\S]*? serve$/m.exec(document) ?? [];
  const given = [...command.matchAll(/--env (\w+)=(\S+)/g)].map(([, name = "", value = ""]) => [name, value]);
  expect(given.length).toBeGreaterThan(4);
  return Object.fromEntries(given) as Environment;
}

async function filesBelow(root: string): Promise<readonly string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => !entry.isDirectory())
    .map(({ parentPath, name }) => join(parentPath, name).slice(root.length));
}

async function sizeOf(root: string): Promise<number> {
  const sizes = (await filesBelow(root)).map(async (path) => (await lstat(join(root, path))).size);
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}

describe.skipIf(unreachable)("the image", () => {
  let directory: string;
  let root: string;
  /** Root of the other platform's image. */
  let otherRoot: string;
  let app: string;
  let database: TestDatabase;

  beforeAll(async () => {
    directory = await realpath(await mkdtemp(join(tmpdir(), "signet-image-")));
    // Another user runs it.
    await chmod(directory, 0o755);
    const architectures = process.arch === "arm64" ? ["arm64", "amd64"] : ["amd64", "arm64"];
    [root = "", otherRoot = ""] = await buildImages(directory, architectures);
    app = join(root, "app");
    database = await createTestDatabase();
  });

  afterAll(async () => {
    await database?.drop();
    await rm(directory, { recursive: true, force: true });
  });

  test("is small, and has neither bundler nor compiler nor other platforms' libraries", async () => {
    const bytes = await sizeOf(root);
    console.log(`the image beside Node: ${(bytes / MB).toFixed(0)} MB`);
    expect(bytes).toBeLessThan(SIZE_MAX);
    const packages = await readdir(join(app, "node_modules"));
    for (const name of ["webpack", "@swc", "memfs", "esbuild", "typescript", "vitest"]) {
      expect(packages).not.toContain(name);
    }
    const libraries = await readdir(join(app, "node_modules", "@temporalio", "core-bridge", "releases"));
    expect(libraries).toEqual([expect.stringMatching(/-unknown-linux-gnu$/)]);
  });

  test("differs between platforms by Temporal's native library alone", async () => {
    const [here, there] = await Promise.all([filesBelow(root), filesBelow(otherRoot)]);
    const only = (left: readonly string[], right: readonly string[]): readonly string[] => {
      const known = new Set(right);
      return left.filter((path) => !known.has(path));
    };
    const library = (triple: string): string =>
      `/app/node_modules/@temporalio/core-bridge/releases/${triple}-unknown-linux-gnu/index.node`;
    const triples = process.arch === "arm64" ? ["aarch64", "x86_64"] : ["x86_64", "aarch64"];
    expect([only(here, there), only(there, here)]).toEqual(triples.map((triple) => [library(triple)]));
  });

  test("has the command line on its PATH", async () => {
    const signet = ["node", join(root, "usr", "local", "bin", "signet"), "--version"];
    expect(await runProcess({ command: signet, cwd: directory, environment: {} })).toBe(`${VERSION}\n`);
  });

  test("tries out the whole service on a given PostgreSQL and Temporal, by a user who cannot write there", async () => {
    const home = join(directory, "home");
    await mkdir(home);
    const isRoot = process.getuid?.() === 0;
    if (isRoot) {
      await chown(home, NOBODY, NOBODY);
    }
    const [api, admin, edge, metrics] = await freePorts(4);
    const user = isRoot ? ["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"] : [];
    const serve = spawnProcess({
      command: [...user, process.execPath, "dist/src/processes/main.js", "serve"],
      cwd: app,
      environment: {
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
});
