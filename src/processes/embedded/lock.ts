/** One process per directory: two `npm start` on the same `.signet/` would fight over its database. */
import { randomUUID } from "node:crypto";
import { link, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { processIdentity } from "./process-identity.ts";
import { hasCode, startUpError } from "./start-up-error.ts";

/** Pauses while another process takes over the lock of a dead one, in milliseconds, and how many there are. */
const LOOK_AGAIN_MS = 10;
const LOOKS_MAX = 500;

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

function isAlive(holder: Holder | undefined): holder is Holder {
  return holder !== undefined && processIdentity(holder.pid) === holder.identity;
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

/**
 * Replaces the lock of a dead holder, if nobody else does. A process that has placed `lock.next` looks at the lock again
 * and renames the one to the other. So the lock is never away for a moment. No live lock is replaced either: of two
 * processes, the later one places its file after the rename of the first, and finds that one's lock. But a process may
 * remove the `lock.next` of one that is alive by now, whose rename then moves another file or none. So the caller looks
 * afterwards whose lock it is.
 */
async function takeOver(path: string, text: string): Promise<void> {
  const next = `${path}.next`;
  if (!(await place(next, text))) {
    const rival = await readHolder(next);
    if (rival === undefined || isAlive(rival.holder)) {
      await delay(LOOK_AGAIN_MS);
    } else {
      await rm(next, { force: true });
    }
    return;
  }
  const found = await readHolder(path);
  if (found === undefined || isAlive(found.holder)) {
    await rm(next, { force: true });
    return;
  }
  try {
    await rename(next, path);
  } catch (error) {
    if (!hasCode(error, "ENOENT")) {
      throw error;
    }
  }
}

/**
 * Takes the lock of the embedded parts' directory for this process, or takes it over from a dead holder.
 *
 * @param home `.signet/`, created if missing
 * @returns a function that releases the lock; it does nothing if another process holds it by now
 * @throws SignetError `UNAVAILABLE`, one line, while another process holds it
 */
export async function lockHome(home: string): Promise<() => Promise<void>> {
  const path = join(home, "lock");
  await mkdir(dirname(path), { recursive: true });
  const identity = processIdentity(process.pid) ?? "";
  const text = JSON.stringify({ pid: process.pid, identity, attempt: randomUUID() });
  for (let looks = 0; !(await place(path, text)); looks += 1) {
    const found = await readHolder(path);
    if (found?.text === text) {
      break;
    }
    if (isAlive(found?.holder) || looks > LOOKS_MAX) {
      throw startUpError(
        `${home} is in use by another signet (pid ${found?.holder?.pid}): stop it first, or set SIGNET_HOME to another directory`,
      );
    }
    if (found !== undefined) {
      await takeOver(path, text);
    }
  }
  return async () => {
    if ((await readHolder(path))?.text === text) {
      await rm(path, { force: true });
    }
  };
}
