/** Where programs and packages for tests stay between runs. */
import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** SIGNET_CACHE. */
export const CACHE = process.env["SIGNET_CACHE"] ?? join(homedir(), ".cache", "signet");

/**
 * Fills a directory, unless an earlier run has done so.
 *
 * @param by what the content depends on, besides the directory's name
 */
export async function fillOnce(directory: string, by: string, fill: () => Promise<unknown>): Promise<void> {
  const mark = join(directory, ".filled");
  if ((await readFile(mark, "utf8").catch(() => undefined)) !== by) {
    await mkdir(directory, { recursive: true });
    await fill();
    await writeFile(mark, by);
  }
}

/** Returns the Python of a virtual environment with the packages, installed unless an earlier run did. */
export async function pythonWith(packages: readonly string[], directory: string): Promise<string> {
  const python = join(directory, "bin", "python");
  const { stdout: version } = await run("python3", ["--version"]);
  await fillOnce(directory, [version.trim(), ...packages].join("\n"), async () => {
    await run("python3", ["-m", "venv", directory]);
    await run(python, ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ...packages]);
  });
  return python;
}

/** Removes what no run has used for `keptMs`, by the time of its last change. */
export async function removeUnused(directory: string, keptMs: number): Promise<void> {
  for (const name of await readdir(directory)) {
    const path = join(directory, name);
    const used = await stat(path).catch(() => undefined);
    if (used !== undefined && Date.now() - used.mtimeMs > keptMs) {
      await rm(path, { recursive: true, force: true });
    }
  }
}
