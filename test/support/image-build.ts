/** Performs the Dockerfile's instructions without a container engine: each stage is a directory of this machine. */
import { execFile } from "node:child_process";
import { cp, mkdir, readFile, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { instructionsOf } from "./compose-file.ts";

const run = promisify(execFile);
const REPOSITORY = join(import.meta.dirname, "..", "..");
/** Label of the stage without a name. */
const LAST = "last";
const OUTPUT_MAX = 16 * 1_048_576;

interface Stage {
  readonly root: string;
  workdir: string;
}

/** Copies like COPY: a directory's content, or a file into or to the target. */
async function copy(stage: Stage, line: string, stages: ReadonlyMap<string, Stage>): Promise<void> {
  const words = line.split(" ");
  const from = words.find((word) => word.startsWith("--from="))?.slice("--from=".length);
  const paths = words.filter((word) => !word.startsWith("--"));
  const target = paths.pop() ?? "";
  const base = from === undefined ? REPOSITORY : stages.get(from)?.root;
  if (base === undefined) {
    throw new Error(`there is no stage ${from}`);
  }
  const destination = join(stage.root, target.startsWith("/") ? target : join(stage.workdir, target));
  for (const path of paths) {
    const source = join(base, path);
    const into = !(await stat(source)).isDirectory() && target.endsWith("/");
    await cp(source, into ? join(destination, basename(path)) : destination, {
      recursive: true,
      verbatimSymlinks: true,
    });
  }
}

async function execute(stage: Stage, command: string, args: NodeJS.ProcessEnv): Promise<void> {
  const { NODE_ENV: _, ...environment } = process.env;
  const inside = command.replaceAll(/(?<= )\/(?=image\/)/g, `${stage.root}/`);
  const options = {
    cwd: join(stage.root, stage.workdir),
    env: { ...environment, ...args },
    maxBuffer: OUTPUT_MAX,
  };
  await run("sh", ["-euc", inside], options).catch((error: Error & { readonly stdout?: string }) => {
    throw new Error(`${command} failed:\n${error.stdout}${error.message}`, { cause: error });
  });
}

type Stages = ReadonlyMap<string, Stage>;

/** Performs instructions in stages of a directory, after those of `known`. */
async function perform(
  directory: string,
  instructions: ReturnType<typeof instructionsOf>,
  { known, architecture }: { readonly known: Stages; readonly architecture: string },
): Promise<Stages> {
  const stages = new Map(known);
  let stage = [...stages.values()].at(-1) ?? { root: directory, workdir: "/" };
  for (const [name, line] of instructions) {
    if (name === "FROM") {
      const [, label = LAST] = / AS (\w+)$/.exec(line) ?? [];
      stage = { root: join(directory, label), workdir: "/" };
      stages.set(label, stage);
    } else if (name === "WORKDIR") {
      stage.workdir = line;
      await mkdir(join(stage.root, line), { recursive: true });
    } else if (name === "COPY") {
      await copy(stage, line, stages);
    } else if (name === "RUN") {
      await execute(stage, line, { TARGETARCH: architecture });
    }
  }
  return stages;
}

/**
 * Builds the image for several platforms. Like BuildKit, it performs once what stands before the target's architecture.
 *
 * @param directory receives directories for each platform
 * @param architectures as Docker names them
 * @returns the root of each image's last stage, without what its base holds
 */
export async function buildImages(
  directory: string,
  architectures: readonly string[],
): Promise<readonly string[]> {
  const all = instructionsOf(await readFile(join(REPOSITORY, "Dockerfile"), "utf8"));
  const fork = all.findIndex(([name, line]) => name === "ARG" && line === "TARGETARCH");
  const shared = await perform(join(directory, "shared"), all.slice(0, fork), {
    known: new Map(),
    architecture: "",
  });
  const roots: string[] = [];
  for (const architecture of architectures) {
    const known = new Map<string, Stage>();
    for (const [label, { root, workdir }] of shared) {
      const copied = join(directory, architecture, label);
      await mkdir(join(directory, architecture), { recursive: true });
      // Links: the files are the same until they are removed.
      await run("cp", ["-al", root, copied]);
      known.set(label, { root: copied, workdir });
    }
    const stages = await perform(join(directory, architecture), all.slice(fork), { known, architecture });
    roots.push(stages.get(LAST)?.root ?? "");
  }
  return roots;
}
