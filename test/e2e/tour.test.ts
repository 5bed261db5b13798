/** Pastes the commands of docs/tour.md and docs/getting-started.md into a shell beside a newly started service. */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { labelledBlocks } from "../support/documents.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import {
  bash,
  type Home,
  killServersOf,
  makeHome,
  type NpmStart,
  npmStart,
  openTerminal,
  ownSettings,
  type Settings,
} from "../support/npm-start.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..");
const TIMEOUT_MS = 600_000;

/** The blocks of docs/tour.md, in the order in which a reader who follows every word runs them. */
const TOUR = [
  "token",
  "endpoint",
  "receiver",
  "event",
  "dead-letter",
  "replay",
  "dead-letter",
  "receiver again",
  "operator-replay",
  "end",
  "mutual-tls",
  "tenant",
  "operators",
] as const;

let tour: string;
let directory: Home;
let settings: Settings;
let service: NpmStart;
let receiverPort: number;

function tourBlocks(): Map<string, string> {
  const blocks = labelledBlocks(tour);
  const [, startReceiver = ""] = (blocks.get("receiver") ?? "").split("\n");
  return blocks.set("receiver again", startReceiver);
}

/** Returns the lines with this service's ports and home. */
function here(text: string): string {
  return text
    .replaceAll("127.0.0.1:8080", settings["SIGNET_API_LISTEN"] ?? "")
    .replaceAll("127.0.0.1:8443", settings["SIGNET_EDGE_LISTEN"] ?? "")
    .replaceAll("127.0.0.1:9000", `127.0.0.1:${receiverPort}`)
    .replaceAll("docs/examples/receiver.ts", `docs/examples/receiver.ts ${receiverPort}`)
    .replaceAll(".signet/", `${directory.home}/`);
}

/** Returns a line of output without the parts that differ each time. */
function shape(line: string): string {
  return line
    .replaceAll(/\b(ten|ep|dlv|bat|evt)_[0-9a-z]{24}\b/g, "$1_ID")
    .replaceAll(/\bcl_\w{24}\b/g, "cl_ID")
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")
    .replaceAll(/127\.0\.0\.1(?::\d+)?/g, "ADDRESS")
    .replaceAll(/\S+\.signet/g, "HOME")
    .replaceAll(/sign-in\?\S+/g, "sign-in?TOKEN")
    .replaceAll(/\b\d{4}-\d\d-\d\d$/g, "DATE")
    .replaceAll(/\d+ ms/g, "N ms");
}

/**
 * Creates an `npx` without npm's start, two thirds of each command. test/promises/readme.test.ts runs npm's own. Beside it,
 * curl is told to ask again while a process is unavailable, as one is that cannot hear revocations for a moment.
 */
async function makePrograms(directory: string): Promise<string> {
  await mkdir(directory);
  await writeFile(join(directory, ".curlrc"), "retry = 9\n");
  const bootstrap = join(REPOSITORY, "src", "bootstrap.mjs");
  await writeFile(join(directory, "npx"), `#!/bin/sh\nshift\nexec node ${bootstrap} "$@"\n`, { mode: 0o755 });
  return directory;
}

beforeAll(async () => {
  tour = await readFile(join(REPOSITORY, "docs", "tour.md"), "utf8");
  directory = await makeHome();
  const programs = await makePrograms(join(dirname(directory.home), "bin"));
  settings = {
    ...(await ownSettings(directory.home)),
    SIGNET_CONFIG_DIR: join(directory.home, "profiles"),
    PATH: [programs, process.env["PATH"] ?? ""].join(delimiter),
    CURL_HOME: programs,
  };
  receiverPort = await freePort();
  service = npmStart(settings);
  await service.untilPrinted(/^signet ready$/m);
}, TIMEOUT_MS);

afterAll(async () => {
  await service.interrupt();
  await killServersOf(directory.home);
  await directory.remove();
});

test("npm start prints what the tour shows", () => {
  const [, sample = ""] = /^```\n(✓ PostgreSQL [\s\S]*?)^```$/m.exec(tour) ?? [];
  const printed = new Set(service.stdout().split("\n").map(shape));
  const missing = sample
    .split("\n")
    .map(shape)
    .filter((line) => !printed.has(line));
  expect(sample).toContain("signet ready");
  expect(missing).toEqual([]);
});

test("every line of docs/getting-started.md works unchanged", { timeout: TIMEOUT_MS }, async () => {
  const blocks = labelledBlocks(await readFile(join(REPOSITORY, "docs", "getting-started.md"), "utf8"));
  expect([...blocks.keys()]).toEqual(["who", "listen", "publish", "dead-letters", "tenant"]);
  const place = { cwd: REPOSITORY, settings };
  const paste = async (label: string): Promise<string> => await bash(blocks.get(label) ?? "exit 1", place);
  expect(await paste("who")).toMatch(/^credential +the demo tenant of /m);
  const receiver = openTerminal(blocks.get("listen") ?? "exit 1", place);
  try {
    await eventually(() => receiver.output().includes("Ready"), "signet listen", TIMEOUT_MS / 2);
    expect(await paste("publish")).toMatch(/dlv_\w+ +[A-Z]+ +pipeline\.failed/);
    await eventually(() => /pipeline\.failed .* verified \(v1\)/.test(receiver.output()), "the delivery");
  } finally {
    await receiver.interrupt();
  }
  expect(await paste("dead-letters")).toMatch(/pipeline\.done +\S+ \S+ +endpoint_disabled[\s\S]*total +1/);
  expect(await paste("tenant")).toMatch(/^credential +profile example$/m);
});

test("every line of the tour works unchanged", { timeout: TIMEOUT_MS }, async () => {
  const blocks = tourBlocks();
  expect(new Set(blocks.keys())).toEqual(new Set(TOUR));
  const script = TOUR.map((label) => `echo "== ${label}"\n${here(blocks.get(label) ?? "exit 1")}`).join("\n");
  const output = await bash(`trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n${script}`, {
    cwd: REPOSITORY,
    settings: {
      ...settings,
      TEMPORAL_ADDRESS: `127.0.0.1:${settings["SIGNET_EMBEDDED_TEMPORAL_PORT"]}`,
    },
  });
  const [, ...sections] = output.split(/^== .*$/m);
  const expected: readonly RegExp[] = [
    /^\s*$/,
    /"state":"PENDING".*"secret":"whsec_/s,
    /accepted .*"type":"ping".*"state":"ACTIVE"/s,
    /accepted .*"data":\{"run":7\}/,
    /"state":"DEAD_LETTERED".*"reason":"attempts_exhausted"/s,
    /accepted .*"data":\{"run":8\}.*"cycle":2/s,
    /"state":"DEAD_LETTERED".*"reason":"attempts_exhausted"/s,
    /^\s*/,
    /Signal workflow succeeded.*"state":"DELIVERED"/s,
    /^/,
    /"san_uri":"spiffe:\/\/signet\.development\/demo".*"service":"sample data plane".*"code":"SCOPE_VIOLATION".*"code":"CERT_BINDING_MISMATCH"/s,
    /client_id +cl_\w{24}\n.*client_secret +sgn_test_sk_\w+/s,
  ];
  for (const [index, pattern] of expected.entries()) {
    expect(sections[index], `after "${TOUR[index]}"`).toMatch(pattern);
  }
});

test("the table of requests matches the OpenAPI document", async () => {
  const response = await fetch(`http://${settings["SIGNET_API_LISTEN"]}/openapi.json`);
  const { paths } = (await response.json()) as { paths: Record<string, Record<string, unknown>> };
  const served = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const table = await readFile(join(REPOSITORY, "docs", "reference", "operations.md"), "utf8");
  const listed = [...table.matchAll(/^\| `((?:GET|POST|PUT|PATCH|DELETE) \/\S+)` \|/gm)].map(
    ([, name]) => name,
  );
  expect(new Set(listed)).toEqual(new Set(served));
});
