/**
 * The rest of `.ci/run`, after the README's test command: the programs that other tests need, every other test, the
 * README's test command on other versions of Node, the checks, and failed files once more.
 *
 *   node src/bootstrap.mjs run test/ci/main.ts <directory> <exit code> <seconds>
 *
 * The directory has the first command's report, `report.json`, and its output, `output.log`.
 */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import {
  filesToRepeat,
  judge,
  readOutside,
  readReport,
  type Repeated,
  type Report,
  type Result,
} from "./verdict.ts";

/** The oldest Node that runs the service, and the one that is supported for the longest time. */
const OLDEST_NODE = "22.19.0";
const LONGEST_NODE = "24";
const ROOT = join(import.meta.dirname, "..", "..");
const REPORTERS = ["default", "./test/support/run-summary.ts", "json"].map((name) => `--reporter=${name}`);
/** Begins a line of test/support/run-summary.ts about tests that the machine cannot run. */
const SKIPPED = "signet: skipped: ";

interface Part {
  readonly name: string;
  readonly command: readonly string[];
  /** Variables besides those of this process. */
  readonly environment?: NodeJS.ProcessEnv;
}

const [directory = "", firstExitCode = "1", firstSeconds = "0"] = process.argv.slice(2);
const times: [name: string, seconds: number][] = [];
const skipped = new Set<string>();

function noteSkipped(output: string): void {
  for (const line of output.split("\n")) {
    if (line.startsWith(SKIPPED)) {
      skipped.add(line.slice(SKIPPED.length));
    }
  }
}

/** Runs a command, and passes on its output. */
async function run({
  name,
  command: [program = "", ...args],
  environment = {},
}: Part): Promise<{ readonly exitCode: number; readonly output: string }> {
  const began = performance.now();
  const child = spawn(program, args, {
    cwd: ROOT,
    env: { ...process.env, ...environment },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const texts: string[] = [];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    texts.push(text);
    process.stdout.write(text);
  });
  const exitCode = await new Promise<number>((resolve, reject) => {
    child.once("error", reject).once("close", (code) => resolve(code ?? 1));
  });
  const output = texts.join("");
  noteSkipped(output);
  times.push([name, Math.round((performance.now() - began) / 1_000)]);
  return { exitCode, output };
}

function resultOf(part: string, exitCode: number, output: string, path: string): Result {
  try {
    const { passed, failures } = readReport(JSON.parse(readFileSync(path, "utf8")) as Report, ROOT);
    return { part, exitCode, passed, failures: [...failures, ...readOutside(output)] };
  } catch (error) {
    console.error(`cannot read the report of ${part}: ${String(error)}`);
    return { part, exitCode: exitCode === 0 ? 1 : exitCode, passed: 0, failures: [] };
  }
}

async function test({ name, command, ...part }: Part): Promise<Result> {
  const path = join(directory, `report-${times.length}.json`);
  const reported = [...command, ...REPORTERS, `--outputFile.json=${path}`];
  const { exitCode, output } = await run({ name, command: reported, ...part });
  return resultOf(name, exitCode, output, path);
}

/** Installs a Node from npm. Returns the part that runs on it, if there is one. */
async function partOnNode(version: string): Promise<Part | undefined> {
  const prefix = join(directory, `node-${version}`);
  const options = ["--no-audit", "--no-fund", "--loglevel=error"];
  const command = ["npm", "install", "--prefix", prefix, ...options, `node@${version}`];
  const { exitCode } = await run({ name: `install Node ${version}`, command });
  if (exitCode !== 0) {
    skipped.add(`npm test on Node ${version}, because npm cannot install it`);
    return undefined;
  }
  const path = [join(prefix, "node_modules", "node", "bin"), process.env["PATH"]].join(delimiter);
  return {
    name: `npm test on Node ${version}`,
    command: ["npm", "test", "--"],
    environment: { PATH: path, SIGNET_TEST_PROPERTIES: "1" },
  };
}

async function otherParts(): Promise<readonly Part[]> {
  const projects = ["system", "shared", "portal"].flatMap((project) => ["--project", project]);
  const rest = { name: "all other tests", command: ["npm", "run", "test:all", "--", ...projects] };
  // A clone on an older Node has run the first command on its own, which is the one that is supported for long.
  const versions = [OLDEST_NODE, ...(/^2[23]\./.test(process.versions.node) ? [LONGEST_NODE] : [])];
  const others: (Part | undefined)[] = [];
  for (const version of versions) {
    others.push(await partOnNode(version));
  }
  const core = ["npm", "run", "test:containers", "--", "test/containers/core.test.ts"];
  const containers = { name: "in a container engine", command: core };
  return [rest, ...others.filter((part) => part !== undefined), containers];
}

const first: Part = { name: "npm test", command: ["npm", "test", "--"] };
times.push([first.name, Number(firstSeconds)]);
const firstOutput = readFileSync(join(directory, "output.log"), "utf8");
noteSkipped(firstOutput);
const results = [resultOf(first.name, Number(firstExitCode), firstOutput, join(directory, "report.json"))];
await run({ name: ".ci/programs", command: [".ci/programs"] });
const parts = [first, ...(await otherParts())];
for (const part of parts.slice(1)) {
  results.push(await test(part));
}
const { exitCode: checkExitCode } = await run({ name: "npm run check", command: ["npm", "run", "check"] });
const checked = checkExitCode === 0;

const repeated: Repeated[] = [];
for (const { part, file } of filesToRepeat(results)) {
  const environment = parts.find(({ name }) => name === part)?.environment ?? {};
  const result = await test({ name: `again: ${file}`, command: ["npm", "test", "--", file], environment });
  repeated.push({ ...result, part, file });
}

const { lines, passed, failed, flaked, green } = judge(results, repeated);
times.push(["total", times.reduce((sum, [, seconds]) => sum + seconds, 0)]);
const report = [
  ...lines,
  ...(checked ? [] : ["FAILED npm run check"]),
  ...times.map(([name, seconds]) => `${name.padEnd(60)}${String(seconds).padStart(6)} s`),
  ...[...skipped].map((reason) => `SKIPPED ${reason}`),
  `${flaked} flaked`,
  `${passed} passed, ${failed} failed`,
];
console.log(report.join("\n"));
process.exitCode = green && checked ? 0 : 1;
