/**
 * Stores checkpoints outside of the database. A sink is append-only: a stored number never changes. Each new checkpoint
 * must extend the sink's newest one, so two signers with one sink cannot fork.
 */
import { access, constants, mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { RandomBytes } from "#domain/ids.ts";
import { syncDirectory, writeOnce } from "#runtime/write-once.ts";

export interface KeptCheckpoint {
  /** Number, from 1, without gaps. */
  readonly seq: number;
  readonly note: string;
}

/** A sink cannot be used as it is configured: trying again would not help. */
export class SinkUnusableError extends Error {
  override readonly name = "SinkUnusableError";
}

export interface CheckpointSink {
  /** The directory, or the URL of the bucket. */
  readonly place: string;
  /**
   * Checks at start, not at the first checkpoint, that the sink can be used.
   *
   * @throws SinkUnusableError if it never can; other errors may pass
   */
  check(): Promise<void>;
  newest(): Promise<KeptCheckpoint | undefined>;
  /** Returns undefined if the number does not exist. */
  read(seq: number): Promise<KeptCheckpoint | undefined>;
  /** Stores it durably before it resolves; false if the number already exists. */
  append(checkpoint: KeptCheckpoint): Promise<boolean>;
}

/** Files per directory. At one change per minute there are half a million a year. */
const FILES_PER_DIRECTORY = 1_000;
const DIRECTORY_DIGITS = 9;
const FILE_DIGITS = 12;
const DIRECTORY = /^\d{9}$/;
const FILE = /^\d{12}\.txt$/;

/** Returns the path of a checkpoint below the directory or the prefix: `<seq div 1000>/<seq>.txt`. */
export function checkpointPath(seq: number): string {
  const group = String(Math.floor(seq / FILES_PER_DIRECTORY)).padStart(DIRECTORY_DIGITS, "0");
  return `${group}/${String(seq).padStart(FILE_DIGITS, "0")}.txt`;
}

function pathOf(directory: string, seq: number): string {
  return join(directory, checkpointPath(seq));
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === "ENOENT";
}

/** Returns the matching names in a directory, in descending order. */
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

/** Returns the paths of all checkpoints in a directory of a file sink, oldest first. */
export async function checkpointFiles(directory: string): Promise<string[]> {
  const paths: string[] = [];
  for (const group of (await namesIn(directory, DIRECTORY)).toReversed()) {
    const names = await namesIn(join(directory, group), FILE);
    paths.push(...names.toReversed().map((name) => join(directory, group, name)));
  }
  return paths;
}

/**
 * Creates a sink with one file per checkpoint. The directory may be on a shared, backed-up or write-once file system.
 */
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
    place: directory,
    read,

    check: async () => {
      try {
        await mkdir(directory, { recursive: true });
        await access(directory, constants.R_OK | constants.W_OK);
      } catch (error) {
        throw new SinkUnusableError((error as Error).message, { cause: error });
      }
    },

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
      // The group's directory may be new.
      await syncDirectory(directory);
      return true;
    },
  };
}
