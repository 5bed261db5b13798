/** Builds what the Dockerfile puts into the image. Compiles only if the sources have changed since the last run. */
import { execFile } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { cp, mkdir, readdir, readFile, rename, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { hasCode } from "#processes/embedded/start-up-error.ts";
import { removeUnused } from "./cache.ts";
import { parseDockerfile } from "./compose-file.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..");
/** All that the build reads. */
const FOLDERS = ["src", "activities", "workflows", "docs"];
const FILES = ["package.json", "package-lock.json", "tsconfig.json", "tsconfig.build.json"];
/** Time for which a build is kept after its last use. */
const KEPT_MS = 3_600_000;

interface Lockfile {
  readonly packages: Readonly<Record<string, { readonly dev?: boolean }>>;
}

/**
 * Links the production dependencies alone into a node_modules, like `npm ci --omit=dev`. Processes there need
 * NODE_PRESERVE_SYMLINKS; otherwise a linked package finds the development dependencies beside its target.
 */
async function linkProductionDependencies(directory: string): Promise<void> {
  const lockfile = JSON.parse(await readFile(join(REPOSITORY, "package-lock.json"), "utf8")) as Lockfile;
  for (const [path, { dev }] of Object.entries(lockfile.packages)) {
    // A nested package comes with its parent.
    if (dev === true || path.lastIndexOf("node_modules/") !== 0) {
      continue;
    }
    await mkdir(dirname(join(directory, path)), { recursive: true });
    // Optional packages of another platform are missing; a dangling link has the same effect.
    await symlink(join(REPOSITORY, path), join(directory, path));
  }
}

/** Returns a hash of the sources' names and contents. */
async function hashOfSources(): Promise<string> {
  const lists = await Promise.all(
    FOLDERS.map(async (folder) => {
      const entries = await readdir(join(REPOSITORY, folder), { recursive: true, withFileTypes: true });
      return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
    }),
  );
  const paths = [...lists.flat(), ...FILES.map((name) => join(REPOSITORY, name))].toSorted();
  const hash = createHash("sha256");
  for (const path of paths) {
    const content = await readFile(path);
    hash.update(`${path.slice(REPOSITORY.length)}\0${content.length}\0`).update(content);
  }
  return hash.digest("hex");
}

async function compile(dist: string): Promise<void> {
  const program = join(REPOSITORY, "src", "processes", "build.mjs");
  const building = promisify(execFile)(process.execPath, [program, dist], {
    cwd: REPOSITORY,
    env: { PATH: process.env["PATH"] },
  });
  await building.catch((error: Error & { readonly stdout?: string }) => {
    throw new Error(`the build failed:\n${error.stdout}${error.message}`, { cause: error });
  });
}

/** Copies a kept build. Returns whether there is one. */
async function copyKept(kept: string, dist: string): Promise<boolean> {
  try {
    const now = new Date();
    await utimes(kept, now, now);
    await cp(kept, dist, { recursive: true });
    return true;
  } catch (error) {
    if (hasCode(error, "ENOENT")) {
      return false;
    }
    throw error;
  }
}

/** Keeps a build for later runs. */
async function keep(dist: string, kept: string): Promise<void> {
  const copy = `${kept}.${randomUUID()}`;
  await cp(dist, copy, { recursive: true });
  // Fails if another run was faster; its build is the same.
  await rename(copy, kept).catch(async () => await rm(copy, { recursive: true }));
}

/**
 * Fills the directory as the Dockerfile fills /app: `dist`, `package.json`, `src/bootstrap.mjs` and the production
 * dependencies.
 *
 * @param cacheDir keeps the compiled sources for later runs, by their content
 */
export async function makeImage(directory: string, cacheDir: string): Promise<void> {
  await linkProductionDependencies(directory);
  await cp(join(REPOSITORY, "package.json"), join(directory, "package.json"));
  await cp(join(REPOSITORY, "src", "bootstrap.mjs"), join(directory, "src", "bootstrap.mjs"));
  // The image's user cannot write there. A file in place of the directory has the same effect, even for root.
  await writeFile(join(directory, ".signet"), "");
  const dist = join(directory, "dist");
  const builds = join(cacheDir, "test-builds");
  await mkdir(builds, { recursive: true });
  const hash = await hashOfSources();
  if (!(await copyKept(join(builds, hash), dist))) {
    await compile(dist);
    // Somebody may have edited the sources during the build.
    if ((await hashOfSources()) === hash) {
      await keep(dist, join(builds, hash));
    }
  }
  await removeUnused(builds, KEPT_MS);
}

/** Variables that bound a process's memory. */
const OF_MEMORY = /^(?:NODE_OPTIONS|MALLOC_\w+)$/;

/** Returns what the image sets to bound the memory of its processes. @throws if the Dockerfile sets no NODE_OPTIONS */
export async function imageMemory(
  dockerfile = join(REPOSITORY, "Dockerfile"),
): Promise<Readonly<Record<string, string>>> {
  const { environment } = parseDockerfile(await readFile(dockerfile, "utf8"));
  if (environment["NODE_OPTIONS"] === undefined) {
    throw new Error("the Dockerfile sets no NODE_OPTIONS");
  }
  return Object.fromEntries(Object.entries(environment).filter(([name]) => OF_MEMORY.test(name)));
}
