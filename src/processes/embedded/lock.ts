/** One process per directory: two `npm start` on the same `.signet/` would fight over its database. */
import { randomUUID } from "node:crypto";
import { link, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { processIdentity } from "./process-identity.ts";
import { hasCode, startUpError } from "./start-up-error.ts";

export interface Lock {
  /** Releases the lock; does nothing the second time, or if another process holds it by now. */
  release(): Promise<void>;
}

interface Holder {
  readonly pid: number;
  readonly identity: string;
}

async function readHolder(path: string): Promise<{ text: string; holder: Holder | undefined } | undefined> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (hasCode(error, "ENOENT")) {
      return undefined;
    }
    throw error;
  }
  try {
    return { text, holder: JSON.parse(text) as Holder };
  } catch {
    return { text, holder: undefined };
  }
}

/** Puts a complete file in place, or reports an existing one, so that no process reads a half-written lock. */
async function place(path: string, text: string): Promise<boolean> {
  const draft = `${path}.${randomUUID()}`;
  await writeFile(draft, text, { mode: 0o600 });
  try {
    await link(draft, path);
    return true;
  } catch (error) {
    if (hasCode(error, "EEXIST")) {
      return false;
    }
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

/** Removes a stale lock. Renaming lets only one process win; a new lock is put back. */
async function removeStale(path: string, staleText: string): Promise<void> {
  const aside = `${path}.${randomUUID()}`;
  try {
    await rename(path, aside);
    if ((await readFile(aside, "utf8")) !== staleText) {
      await link(aside, path);
    }
  } catch (error) {
    if (!hasCode(error, "ENOENT", "EEXIST")) {
      throw error;
    }
  } finally {
    await rm(aside, { force: true });
  }
}

/**
 * Takes the lock of the embedded parts' directory for this process, or takes it over from a dead holder.
 *
 * @param home `.signet/`, created if missing
 * @throws SignetError `UNAVAILABLE`, one line, while another process holds it
 */
export async function lockHome(home: string): Promise<Lock> {
  const path = join(home, "lock");
  await mkdir(dirname(path), { recursive: true });
  const text = JSON.stringify({ pid: process.pid, identity: processIdentity(process.pid) ?? "" });
  while (!(await place(path, text))) {
    const found = await readHolder(path);
    if (found?.holder !== undefined && processIdentity(found.holder.pid) === found.holder.identity) {
      throw startUpError(
        `${home} is in use by another signet (pid ${found.holder.pid}): stop it first, or set SIGNET_HOME to another directory`,
      );
    }
    if (found !== undefined) {
      await removeStale(path, found.text);
    }
  }
  return {
    release: async () => {
      if ((await readHolder(path))?.text === text) {
        await rm(path, { force: true });
      }
    },
  };
}
