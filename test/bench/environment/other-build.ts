/** Builds another commit of this repository, to measure it in turns with this one. */
import { execFile } from "node:child_process";
import { mkdir, readFile, symlink } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import type { Janitor } from "./janitor.ts";

const ROOT = join(import.meta.dirname, "..", "..", "..");
const LOCKFILE = "package-lock.json";
const MODULES = "node_modules";
/** Of a program's output. */
const OUTPUT_MAX_BYTES = 64 * 1_024 * 1_024;

const run = promisify(execFile);

export interface OtherBuild {
  /** Full name of the commit. */
  readonly commit: string;
  readonly dist: string;
  readonly dockerfile: string;
}

export interface OtherBuildOptions {
  /** Receives the commit's files. The caller removes it. */
  readonly directory: string;
  readonly janitor: Janitor;
  readonly log: (line: string) => void;
}

async function runIn(
  cwd: string,
  [program, ...args]: readonly [string, ...string[]],
  janitor: Janitor,
): Promise<string> {
  const path = [dirname(process.execPath), process.env["PATH"] ?? ""].join(delimiter);
  const running = run(program, args, {
    cwd,
    env: { ...process.env, PATH: path },
    maxBuffer: OUTPUT_MAX_BYTES,
  });
  if (running.child.pid !== undefined) {
    janitor.mind(running.child.pid, "SIGTERM");
  }
  try {
    return (await running).stdout.trim();
  } catch (error) {
    const { stderr = "", stdout = "" } = error as { readonly stderr?: string; readonly stdout?: string };
    const what = [program, ...args].join(" ");
    throw new Error(`${what} failed in ${cwd}:\n${stdout}${stderr}`.trim(), { cause: error });
  }
}

/** Installs the packages of that commit, or takes ours if they are the same. */
async function installPackages({ directory, janitor, log }: OtherBuildOptions): Promise<void> {
  const [own, other] = await Promise.all(
    [ROOT, directory].map(async (root) => await readFile(join(root, LOCKFILE), "utf8")),
  );
  if (own === other) {
    await symlink(join(ROOT, MODULES), join(directory, MODULES));
    return;
  }
  log("installing its packages");
  await runIn(directory, ["npm", "ci", "--prefer-offline", "--no-audit", "--no-fund"], janitor);
}

/**
 * Exports a commit into the directory and builds it there, with its own packages. An export leaves nothing in the
 * repository, unlike a worktree, even if this process is killed.
 *
 * @throws Error if there is no such commit, or a program fails; the message has its output
 */
export async function buildCommit(ref: string, options: OtherBuildOptions): Promise<OtherBuild> {
  const { directory, janitor, log } = options;
  const commit = await runIn(
    ROOT,
    ["git", "rev-parse", "--verify", "--quiet", "--end-of-options", `${ref}^{commit}`],
    janitor,
  ).catch((error: unknown) => {
    throw new Error(`--against ${ref}: there is no such commit`, { cause: error });
  });
  await mkdir(directory, { recursive: true });
  const archive = join(directory, "commit.tar");
  await runIn(ROOT, ["git", "archive", "--output", archive, commit], janitor);
  await runIn(directory, ["tar", "-xf", archive], janitor);
  await installPackages(options);
  log(`building ${commit}`);
  await runIn(directory, ["npm", "run", "--silent", "build"], janitor);
  return { commit, dist: join(directory, "dist"), dockerfile: join(directory, "Dockerfile") };
}
