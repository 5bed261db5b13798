/**
 * The rest of `.ci/run`, after the README's test command: the programs that other tests need, every other test, the
 * README's test command on other versions of Node, the checks, and failed files once more.
 *
 *   node src/bootstrap.mjs run test/ci/main.ts <directory> <exit code> <seconds>
 *
 * The directory has the first command's report, `report.json`, and its output, `output.log`.
 */
import { readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { type Part, Parts, type Print, type Ran } from "./parts.ts";
import {
  filesToRepeat,
  judge,
  readOutside,
  readReport,
  type Repeated,
  type Report,
  type Result,
  slowestFiles,
} from "./verdict.ts";

/** The oldest Node that runs the service, and the one that is supported for the longest time. */
const OLDEST_NODE = "22.19.0";
const LONGEST_NODE = "24";
/** Files whose times are printed at the end. */
const SLOWEST = 25;
const ROOT = join(import.meta.dirname, "..", "..");
const REPORTERS = ["default", "./test/support/run-summary.ts", "json"].map((name) => `--reporter=${name}`);
/** Begins a line of test/support/run-summary.ts about tests that the machine cannot run. */
const SKIPPED = "signet: skipped: ";

const [directory = "", firstExitCode = "1", firstSeconds = "0"] = process.argv.slice(2);
const began = performance.now();
const parts = new Parts(ROOT);
const skipped = new Set<string>();

function noteSkipped(output: string): void {
  for (const line of output.split("\n")) {
    if (line.startsWith(SKIPPED)) {
      skipped.add(line.slice(SKIPPED.length));
    }
  }
}

/** Runs a command. @param print by default, it prints at once */
async function run(part: Part, print?: Print): Promise<Ran> {
  const ran = await parts.run(part, print);
  noteSkipped(ran.output);
  return ran;
}

function resultOf(part: string, exitCode: number, output: string, path: string): Result {
  try {
    const { failures, ...read } = readReport(JSON.parse(readFileSync(path, "utf8")) as Report, ROOT);
    return { part, exitCode, ...read, failures: [...failures, ...readOutside(output)] };
  } catch (error) {
    console.error(`cannot read the report of ${part}: ${String(error)}`);
    return { part, exitCode: exitCode === 0 ? 1 : exitCode, passed: 0, failures: [], times: [] };
  }
}

let reports = 0;

async function test({ command, ...part }: Part, print?: Print): Promise<Result> {
  reports += 1;
  const path = join(directory, `report-${reports}.json`);
  const reported = [...command, ...REPORTERS, `--outputFile.json=${path}`];
  const { exitCode, output } = await run({ ...part, command: reported }, print);
  return resultOf(part.name, exitCode, output, path);
}

/** Installs a Node from npm. Returns the part that runs on it, if there is one. */
async function partOnNode(version: string, print: Print): Promise<Part | undefined> {
  const prefix = join(directory, `node-${version}`);
  const options = ["--no-audit", "--no-fund", "--loglevel=error"];
  const command = ["npm", "install", "--prefix", prefix, ...options, `node@${version}`];
  const { exitCode } = await run({ name: `install Node ${version}`, command }, print);
  if (exitCode !== 0) {
    skipped.add(`npm test on Node ${version}, because npm cannot install it`);
    return undefined;
  }
  const path = [join(prefix, "node_modules", "node", "bin"), process.env["PATH"]].join(delimiter);
  return {
    name: `npm test on Node ${version}`,
    command: ["npm", "test", "--"],
    // Another Node does not change what a simulation finds. Each still runs.
    environment: { PATH: path, SIGNET_TEST_PROPERTIES: "0.2" },
  };
}

/** Returns the parts on other versions of Node. */
async function partsOnNodes(print: Print): Promise<readonly Part[]> {
  // A clone on an older Node has run the first command on its own, which is the one that is supported for long.
  const versions = [OLDEST_NODE, ...(/^2[23]\./.test(process.versions.node) ? [LONGEST_NODE] : [])];
  const others: (Part | undefined)[] = [];
  for (const version of versions) {
    others.push(await partOnNode(version, print));
  }
  return others.filter((part) => part !== undefined);
}

const first: Part = { name: "npm test", command: ["npm", "test", "--"] };
parts.add(first.name, Number(firstSeconds));
const firstOutput = readFileSync(join(directory, "output.log"), "utf8");
noteSkipped(firstOutput);
const results = [resultOf(first.name, Number(firstExitCode), firstOutput, join(directory, "report.json"))];

const projects = ["system", "shared"].flatMap((project) => ["--project", project]);
const rest: Part = { name: "all other tests", command: ["npm", "run", "test:all", "--", ...projects] };
const portal: Part = {
  name: "in a browser",
  command: ["npm", "run", "test:all", "--", "--project", "portal"],
};
// Programs and Nodes come over the network. The checks use the cores meanwhile.
const [others, { checked, onNodes }] = await parts.together(
  async () => {
    await run({ name: ".ci/programs", command: [".ci/programs"] });
    return await test(rest);
  },
  async (print) => {
    const { exitCode } = await run({ name: "npm run check", command: ["npm", "run", "check"] }, print);
    return { checked: exitCode === 0, onNodes: await partsOnNodes(print) };
  },
);
// Large tables are read in parallel, and the tests' are small. These files read lists and make every statement.
const lists = [
  ...["bounded-pages", "day-pages", "parallel-plans", "statements"].map((file) => `database/${file}`),
  ...["audit", "overview-scale", "tenant-state", "usage"].map((file) => `admin/${file}`),
  "compliance/verify",
  "api/metadata-filter",
  "api/webhook-paging",
  "api/replays",
];
const inParallel: Part = {
  name: "lists in parallel plans",
  command: ["npm", "test", "--", ...lists.map((path) => `test/integration/${path}`)],
  environment: { SIGNET_TEST_PARALLEL_PLANS: "1", SIGNET_TEST_PROPERTIES: "1" },
};
// The containers mostly wait. Their bounds are seconds, and hold on a busy machine.
const core = ["npm", "run", "test:containers", "--", "test/containers/core.test.ts"];
const [byNode, contained] = await parts.together(
  async () => {
    const ran: Result[] = [];
    for (const part of [...onNodes, inParallel, portal]) {
      ran.push(await test(part));
    }
    return ran;
  },
  async (print) => await test({ name: "in a container engine", command: core }, print),
);
results.push(others, ...byNode, contained);

const repeated: Repeated[] = [];
for (const { part, file } of filesToRepeat(results)) {
  const environment = [...onNodes, inParallel].find(({ name }) => name === part)?.environment ?? {};
  const result = await test({ name: `again: ${file}`, command: ["npm", "test", "--", file], environment });
  repeated.push({ ...result, part, file });
}

const { lines, passed, failed, flaked, green } = judge(results, repeated);
const report = [
  ...lines,
  ...(checked ? [] : ["FAILED npm run check"]),
  ...slowestFiles(results, SLOWEST),
  ...parts.lines(Number(firstSeconds) + (performance.now() - began) / 1_000),
  ...[...skipped].map((reason) => `SKIPPED ${reason}`),
  `${flaked} flaked`,
  `${passed} passed, ${failed} failed`,
];
console.log(report.join("\n"));
process.exitCode = green && checked ? 0 : 1;
