/** A disk that can be filled: a tmpfs of a few MiB, which needs the right to mount. */
import { execFile } from "node:child_process";
import { open, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Janitor } from "../bench/environment/janitor.ts";

const run = promisify(execFile);
const CHUNK = Buffer.alloc(64 * 1_024);

export interface SmallDisk {
  readonly directory: string;
  /** Takes all remaining space. */
  fill(): Promise<void>;
  /** Frees the space again. */
  free(): Promise<void>;
  unmount(): Promise<void>;
}

/** Mounts a disk. Returns undefined if mounting is not allowed. */
export async function mountSmallDisk(
  directory: string,
  mebibytes: number,
  janitor: Janitor,
): Promise<SmallDisk | undefined> {
  await mkdir(directory, { recursive: true });
  const options = `size=${mebibytes}m,mode=0777`;
  const mounted = await run("mount", ["-t", "tmpfs", "-o", options, "tmpfs", directory]).then(
    () => true,
    () => false,
  );
  if (!mounted) {
    return undefined;
  }
  janitor.unmount(directory);
  const ballast = join(directory, "ballast");
  return {
    directory,
    fill: async () => {
      const file = await open(ballast, "a");
      try {
        for (;;) {
          await file.write(CHUNK);
        }
      } catch {
        // ENOSPC, after a truncated last write.
      } finally {
        await file.close();
      }
    },
    free: async () => await rm(ballast, { force: true }),
    unmount: async () => void (await run("umount", ["--lazy", directory])),
  };
}
