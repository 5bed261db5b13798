/** The user that runs PostgreSQL, which refuses to run as root. No user is added to the system. */
import { spawnSync } from "node:child_process";
import type { ServiceUser } from "./server-process.ts";
import { startUpError } from "./start-up-error.ts";

const CANDIDATES = ["postgres", "nobody"];

export function isRoot(): boolean {
  return process.getuid?.() === 0;
}

function numericId(flag: "-u" | "-g", name: string): number | undefined {
  const { status, stdout } = spawnSync("id", [flag, name], { encoding: "utf8" });
  return status === 0 ? Number(stdout.trim()) : undefined;
}

/**
 * Returns the system user that runs PostgreSQL for root: `postgres`, else `nobody`.
 *
 * @throws SignetError `UNAVAILABLE` when the system has neither
 */
export function unprivilegedUser(): ServiceUser {
  for (const name of CANDIDATES) {
    const uid = numericId("-u", name);
    const gid = numericId("-g", name);
    if (uid !== undefined && gid !== undefined) {
      return { name, uid, gid };
    }
  }
  throw startUpError(
    "PostgreSQL does not run as root, and there is no user `postgres` or `nobody`: run as another user, or set SIGNET_DATABASE_URL",
  );
}

/** Whether the user can write to the directory and enter all its parents. The system checks it, including ACLs. */
export function canWrite(user: ServiceUser, directory: string): boolean {
  const { uid, gid } = user;
  return spawnSync("/bin/sh", ["-c", 'test -w "$0"', directory], { uid, gid, cwd: "/" }).status === 0;
}
