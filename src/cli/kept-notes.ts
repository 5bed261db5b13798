/** Reads checkpoints of the compliance log that the user kept. */
import { readFile, stat } from "node:fs/promises";
import { checkpointFiles } from "#compliance/checkpoint-sink.ts";
import type { KeptNote } from "#compliance/verify-log.ts";
import { messageOf } from "#runtime/thrown.ts";
import { withoutMark } from "./client/command.ts";
import { CommandError } from "./exit-codes.ts";

/**
 * Returns the notes in the files; for a signer's directory, in all of its files.
 *
 * @throws CommandError if a file cannot be read
 */
export async function readNotes(paths: readonly string[] = []): Promise<KeptNote[]> {
  const notes: KeptNote[] = [];
  try {
    for (const path of paths) {
      if (path.startsWith("s3://")) {
        throw new Error(`copy the bucket first: \`aws s3 sync ${path} DIRECTORY\``);
      }
      const files = (await stat(path)).isDirectory() ? await checkpointFiles(path) : [path];
      for (const file of files) {
        notes.push({ label: file, note: withoutMark(await readFile(file, "utf8")) });
      }
    }
  } catch (error) {
    throw new CommandError(`--checkpoint: ${messageOf(error)}`, { cause: error });
  }
  return notes;
}
