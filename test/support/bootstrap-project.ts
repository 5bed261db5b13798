/** A project with src/bootstrap.mjs, whose npm, main program and vitest only report how they were called. */
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const REPOSITORY = join(import.meta.dirname, "..", "..");

/** Prints its arguments and its Node. As a server, exits with code 7 shortly after the first signal and prints how many came. */
const MAIN = `
const args = process.argv.slice(2);
const node = process.versions.node;
if (args[0] === "serve") {
  let signals = 0;
  const keepAlive = setInterval(() => {}, 1_000);
  for (const name of ["SIGINT", "SIGTERM"]) {
    process.on(name, () => {
      signals += 1;
      if (signals === 1) {
        setTimeout(() => { clearInterval(keepAlive); console.log(name + " " + signals); process.exit(7); }, 300);
      }
    });
  }
}
// After it listens for signals, because a test sends them once it has read this.
console.log(JSON.stringify({ args, node, environment: process.env["SIGNET_ENV"] ?? null, pid: process.pid }));
`;

/** "Bundles" a program, which is plain JavaScript, in a fraction of esbuild's time. */
const PLAIN_ESBUILD = `
import { appendFileSync, copyFileSync, mkdirSync } from "node:fs";
import { relative } from "node:path";
export const build = async ({ absWorkingDir, entryPoints: { main }, outdir }) => {
  appendFileSync(absWorkingDir + "/bundles", relative(absWorkingDir, main) + "\\n");
  mkdirSync(outdir, { recursive: true });
  copyFileSync(main, outdir + "/main.js");
  return { metafile: { inputs: { [relative(absWorkingDir, main)]: {} } } };
};
`;

/** Records its call, waits if asked to, and creates what the project needs to run. Another Node is this one. */
const NPM = `
import { appendFileSync, copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
appendFileSync(new URL("../npm-calls", import.meta.url), process.argv.slice(2).join(" ") + "\\n");
const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8"));
for (const path of Object.keys(packages).filter((path) => path.includes("/node-"))) {
  if (existsSync(new URL("../npm-fails", import.meta.url))) { console.error("npm error registry is away"); process.exit(1); }
  mkdirSync(path + "/bin", { recursive: true });
  symlinkSync(process.execPath, path + "/bin/node");
  copyFileSync("package-lock.json", "node_modules/.package-lock.json");
  process.exit();
}
rmSync("node_modules", { recursive: true, force: true });
if (existsSync("npm-slow")) await new Promise((resolve) => setTimeout(resolve, 500));
if (existsSync("npm-fails")) { console.error("npm error registry is away"); process.exit(1); }
mkdirSync("node_modules/vitest", { recursive: true });
if (existsSync("npm-real-esbuild")) {
  symlinkSync(${JSON.stringify(join(REPOSITORY, "node_modules", "esbuild"))}, "node_modules/esbuild");
} else {
  mkdirSync("node_modules/esbuild");
  writeFileSync("node_modules/esbuild/package.json", JSON.stringify({ name: "esbuild", exports: "./esbuild.mjs" }));
  writeFileSync("node_modules/esbuild/esbuild.mjs", ${JSON.stringify(PLAIN_ESBUILD)});
}
writeFileSync("node_modules/vitest/vitest.mjs", "console.log(JSON.stringify(process.argv.slice(2)))");
copyFileSync("package-lock.json", "node_modules/.package-lock.json");
console.log("added 2 packages");
`;

export interface BootstrapProject {
  readonly directory: string;
  /** Path of the project's copy of src/bootstrap.mjs. */
  readonly bootstrap: string;
  /** Runs a command of the project to completion. */
  readonly signet: (...args: string[]) => Promise<{ readonly stdout: string; readonly stderr: string }>;
  /** The environment of the project's commands: this process's, with the npm that reports. */
  readonly environment: (extra?: Readonly<Record<string, string>>) => NodeJS.ProcessEnv;
  /** Returns the arguments of each call of npm so far. */
  readonly npmCalls: () => Promise<readonly string[]>;
  /** Returns the programs that were bundled so far. */
  readonly bundles: () => Promise<readonly string[]>;
  /** Writes a lockfile with this version of a package. */
  readonly lock: (version: string) => Promise<void>;
  readonly remove: () => Promise<void>;
}

async function linesOf(path: string): Promise<readonly string[]> {
  const text = await readFile(path, "utf8").catch(() => "");
  return text.split("\n").filter((line) => line !== "");
}

/** Creates a project without dependencies. Its npm installs the real esbuild, or one that takes main.ts as it is. */
export async function createBootstrapProject({
  realEsbuild,
}: {
  readonly realEsbuild: boolean;
}): Promise<BootstrapProject> {
  const directory = await realpath(await mkdtemp(join(tmpdir(), "signet-bootstrap-")));
  const bootstrap = join(directory, "src", "bootstrap.mjs");
  const lock = async (version: string): Promise<void> => {
    const text = JSON.stringify({
      packages: {
        "": {},
        "node_modules/a": { version },
        "node_modules/b": { version: "1.0.0", optional: true },
      },
    });
    await writeFile(join(directory, "package-lock.json"), text);
  };
  const environment: BootstrapProject["environment"] = (extra = {}) => {
    const { SIGNET_ENV: _environment, NODE_OPTIONS: _options, ...rest } = process.env;
    return { ...rest, npm_execpath: join(directory, "npm", "npm-cli.js"), ...extra };
  };
  await cp(join(REPOSITORY, "src", "bootstrap.mjs"), bootstrap);
  await writeFile(join(directory, "package.json"), JSON.stringify({ type: "module" }));
  await writeFile(join(directory, "tsconfig.json"), "{}");
  await mkdir(join(directory, "src", "processes"));
  await cp(
    join(REPOSITORY, "src", "processes", "bundle.mjs"),
    join(directory, "src", "processes", "bundle.mjs"),
  );
  for (const name of ["main.ts", "commands.ts"]) {
    await writeFile(join(directory, "src", "processes", name), MAIN);
  }
  await mkdir(join(directory, "npm"));
  await writeFile(join(directory, "npm", "npm-cli.js"), NPM);
  if (realEsbuild) {
    await writeFile(join(directory, "npm-real-esbuild"), "");
  }
  await lock("1.0.0");
  return {
    directory,
    bootstrap,
    environment,
    lock,
    signet: async (...args) =>
      await promisify(execFile)(process.execPath, [bootstrap, ...args], {
        cwd: directory,
        env: environment(),
      }),
    npmCalls: async () => await linesOf(join(directory, "npm-calls")),
    bundles: async () => await linesOf(join(directory, "bundles")),
    remove: async () => await rm(directory, { recursive: true, force: true }),
  };
}
