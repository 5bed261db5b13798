/** A temporary copy of the work tree as it is, so that a fault never touches the tree that somebody works in. */
import { rmSync } from "node:fs";
import { cp, mkdtemp, readFile, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { workTreeFiles } from "../support/work-tree.ts";
import { type Mutant, withFault } from "./mutant.ts";

const ROOT = join(import.meta.dirname, "..", "..");

/** Notices every fault, because the text that it replaces is gone. */
const TEST_OF_LIST = "test/unit/repository/mutants.test.ts";

export interface Copy {
  readonly directory: string;
  /** Runs `work` while the fault is in the copy. */
  with<T>(mutant: Mutant, work: () => Promise<T>): Promise<T>;
}

/**
 * Copies the files that git tracks or would track, with their uncommitted changes. node_modules is shared. The copy is
 * removed when this process exits.
 */
export async function copyTree(): Promise<Copy> {
  const directory = await mkdtemp(join(tmpdir(), "signet-mutants-"));
  process.once("exit", () => rmSync(directory, { recursive: true, force: true, maxRetries: 5 }));
  for (const path of workTreeFiles().filter((each) => each !== TEST_OF_LIST)) {
    await cp(join(ROOT, path), join(directory, path), { verbatimSymlinks: true });
  }
  await symlink(join(ROOT, "node_modules"), join(directory, "node_modules"));
  return {
    directory,
    with: async (mutant, work) => {
      const path = join(directory, mutant.file);
      const text = await readFile(path, "utf8");
      await writeFile(path, withFault(text, mutant));
      try {
        return await work();
      } finally {
        await writeFile(path, text);
      }
    },
  };
}
