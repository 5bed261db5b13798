/**
 * Where checkpoints are kept out of the database's reach. A sink is written once: a number that is taken stays as it
 * is. What the signer signs next must extend the newest of them, so two signers with one sink cannot fork.
 */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { RandomBytes } from "../domain/ids.ts";
import { syncDirectory, writeOnce } from "../runtime/write-once.ts";

export interface KeptCheckpoint {
  /** From 1, without gaps. */
  readonly seq: number;
  readonly note: string;
}

export interface CheckpointSink {
  newest(): Promise<KeptCheckpoint | undefined>;
  /** Undefined where there is none of this number. */
  read(seq: number): Promise<KeptCheckpoint | undefined>;
  /** Keeps it for good before it resolves; false when the number is taken. */
  append(checkpoint: KeptCheckpoint): Promise<boolean>;
}

/** Files in one directory; half a million a year if there is a change each minute. */
const FILES_PER_DIRECTORY = 1_000;
const DIRECTORY_DIGITS = 9;
const FILE_DIGITS = 12;
const DIRECTORY = /^\d{9}$/;
const FILE = /^\d{12}\.txt$/;

function pathOf(directory: string, seq: number): string {
  const group = String(Math.floor(seq / FILES_PER_DIRECTORY)).padStart(DIRECTORY_DIGITS, "0");
  return join(directory, group, `${String(seq).padStart(FILE_DIGITS, "0")}.txt`);
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === "ENOENT";
}

/** Names in a directory that match, the last in order first. */
async function namesIn(directory: string, pattern: RegExp): Promise<string[]> {
  try {
    return (await readdir(directory))
      .filter((name) => pattern.test(name))
      .sort()
      .toReversed();
  } catch (error) {
    if (isMissing(error)) {
      return [];
    }
    throw error;
  }
}

/** Paths of all checkpoints in a directory of a file sink, oldest first. */
export async function checkpointFiles(directory: string): Promise<string[]> {
  const paths: string[] = [];
  for (const group of (await namesIn(directory, DIRECTORY)).toReversed()) {
    const names = await namesIn(join(directory, group), FILE);
    paths.push(...names.toReversed().map((name) => join(directory, group, name)));
  }
  return paths;
}

/** A sink of files, one for each checkpoint. The directory can be on a file system that is shared, backed up or write-once. */
export function createFileSink(directory: string, randomBytes: RandomBytes): CheckpointSink {
  async function read(seq: number): Promise<KeptCheckpoint | undefined> {
    try {
      return { seq, note: await readFile(pathOf(directory, seq), "utf8") };
    } catch (error) {
      if (isMissing(error)) {
        return undefined;
      }
      throw error;
    }
  }

  return {
    read,

    newest: async () => {
      for (const group of await namesIn(directory, DIRECTORY)) {
        const [name] = await namesIn(join(directory, group), FILE);
        if (name !== undefined) {
          return await read(Number.parseInt(name, 10));
        }
      }
      return undefined;
    },

    append: async ({ seq, note }) => {
      const path = pathOf(directory, seq);
      if (!(await writeOnce(path, note, { mode: 0o644, randomBytes }))) {
        return false;
      }
      // The group may be new.
      await syncDirectory(directory);
      return true;
    },
  };
}
