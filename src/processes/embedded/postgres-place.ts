/**
 * Location and user of the embedded cluster. Normally `.signet/postgres`. If this process is root and that is below
 * a directory that the unprivileged user cannot enter (a clone in /root), a system directory, with a pointer
 * in `.signet/`.
 */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, chown, lstat, mkdir, readFile, realpath, rmdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ServiceUser } from "./server-process.ts";
import { canWrite, isRoot, unprivilegedUser } from "./service-user.ts";
import { hasCode, startUpError } from "./start-up-error.ts";

/** System directories for a cluster that an unprivileged user must reach; the first usable one. */
const STATE_ROOTS: readonly string[] = ["/var/lib/signet-embedded", "/var/tmp/signet-embedded"];

export interface PostgresPlace {
  /** Holds the cluster; owned by PostgreSQL's user. */
  readonly base: string;
  readonly data: string;
  /** A directory for a copy of the programs, if they cannot run in place. */
  readonly programs: () => Promise<string>;
  readonly runAs: ServiceUser | undefined;
}

const POINTER = "postgres-location";
const BACK_REFERENCE = "home";

async function ownDirectory(path: string, owner: ServiceUser | undefined): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  if (owner !== undefined) {
    await chown(path, owner.uid, owner.gid);
    await chmod(path, 0o700);
  }
}

/** Whether the directory is owned by root and the user may enter it: in /var/tmp anyone could have created it. */
async function usableStateRoot(roots: readonly string[], user: ServiceUser): Promise<string> {
  for (const root of roots) {
    try {
      await mkdir(root, { recursive: true });
      const found = await lstat(root);
      if (!found.isDirectory() || found.uid !== 0) {
        continue;
      }
      await chmod(root, 0o755);
      const probe = join(root, `probe-${process.pid}`);
      await ownDirectory(probe, user);
      const reachable = canWrite(user, probe);
      await rmdir(probe);
      if (reachable) {
        return root;
      }
    } catch (error) {
      if (!hasCode(error, "EACCES", "EROFS", "EEXIST", "ENOTDIR", "EPERM", "ENOENT")) {
        throw error;
      }
    }
  }
  throw startUpError(
    `no directory that user ${user.name} can reach: tried ${roots.join(", ")}; set SIGNET_HOME to one, or SIGNET_DATABASE_URL to your own server`,
  );
}

/** Returns the user of an existing cluster: PostgreSQL requires the owner of its files. */
async function ownerOf(directory: string): Promise<ServiceUser | undefined> {
  const { uid, gid } = await stat(directory);
  return uid === 0 ? undefined : { name: `uid ${uid}`, uid, gid };
}

/** Returns the place named by the pointer, unless the home is a copy of another one. */
async function readPointer(home: string): Promise<string | undefined> {
  try {
    const base = (await readFile(join(home, POINTER), "utf8")).trim();
    const belongsTo = (await readFile(join(base, BACK_REFERENCE), "utf8")).trim();
    if (belongsTo !== home && existsSync(belongsTo)) {
      return undefined;
    }
    await writeFile(join(base, BACK_REFERENCE), `${home}\n`);
    return base;
  } catch (error) {
    if (hasCode(error, "ENOENT")) {
      return undefined;
    }
    throw error;
  }
}

async function relocate(home: string, root: string, user: ServiceUser): Promise<string> {
  const base = join(root, createHash("sha256").update(home).digest("hex").slice(0, 16));
  await ownDirectory(base, user);
  await writeFile(join(base, BACK_REFERENCE), `${home}\n`);
  await writeFile(join(home, POINTER), `${base}\n`);
  return base;
}

/** Also false on file systems that reject chown (bind mounts, NFS without root). */
async function ownedAndReachable(directory: string, user: ServiceUser): Promise<boolean> {
  try {
    await ownDirectory(directory, user);
  } catch (error) {
    if (hasCode(error, "EPERM", "EINVAL")) {
      return false;
    }
    throw error;
  }
  return canWrite(user, directory);
}

async function placeForRoot(
  home: string,
  stateRoots: readonly string[],
  log: (line: string) => void,
): Promise<PostgresPlace> {
  const inside = join(home, "postgres");
  const known = await readPointer(home);
  const exists = existsSync(join(known ?? inside, "data"));
  const user = (exists ? await ownerOf(known ?? inside) : undefined) ?? unprivilegedUser();
  const programs = async (): Promise<string> => await usableStateRoot(stateRoots, user);
  if (known !== undefined) {
    return { base: known, data: join(known, "data"), programs, runAs: user };
  }
  if (await ownedAndReachable(inside, user)) {
    return { base: inside, data: join(inside, "data"), programs, runAs: user };
  }
  if (exists) {
    throw startUpError(
      `${inside} holds a database that user ${user.name} can no longer reach: let that user enter the directories above it (chmod o+x), or set SIGNET_HOME`,
    );
  }
  await rmdir(inside);
  const base = await relocate(home, await programs(), user);
  log(`user ${user.name} cannot reach ${home}; the embedded database is kept in ${base}`);
  return { base, data: join(base, "data"), programs, runAs: user };
}

/**
 * Finds or creates the cluster's directory.
 *
 * @param home `.signet/`
 */
export async function placePostgres(
  home: string,
  log: (line: string) => void,
  stateRoots: readonly string[] = STATE_ROOTS,
): Promise<PostgresPlace> {
  await mkdir(home, { recursive: true });
  const real = await realpath(home);
  if (isRoot()) {
    return await placeForRoot(real, stateRoots, log);
  }
  const base = join(real, "postgres");
  await ownDirectory(base, undefined);
  return { base, data: join(base, "data"), programs: async () => base, runAs: undefined };
}
