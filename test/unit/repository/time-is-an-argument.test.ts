/**
 * Code gets its time as an argument (src/domain/clock.ts), so that tests can simulate it. This test lists all other code
 * that reads a clock of the machine or plans a call: each addition must be reviewed.
 */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";

const ROOT = new URL("../../../", import.meta.url).pathname;
const TAKES_TIME = [
  /(?<![\w.#])(?:set|clear)(?:Timeout|Interval)\b/,
  /\bglobalThis\.set(?:Timeout|Interval)\b/,
  /\b(?:performance|Date)\.now\b/,
  /\bnew Date\(\)/,
  /\bhrtime\b/,
  /\bAbortSignal\.timeout\b/,
  /\bnode:timers\b/,
  // The machine's own time.
  /\b(?:machineTimers|systemClock)\b/,
];
const ALLOWED = [
  // Composition roots pass the machine's time in. So do the small programs of the processes.
  /^src\/(?:processes|runtime)\//,
  // Programs of operators, tenants and contributors, scripts of pages, and libraries in other people's programs.
  /^src\/(?:cli|lib|portal\/browser|tools)\//,
  // A receiver in a text, for tenants to copy.
  "src/portal/pages/endpoint/receiver-code.ts",
  // The connections of PostgreSQL's driver, which has timers of its own.
  "src/database/bounded-client.ts",
  "src/database/abandoned-backends.ts",
  "src/database/pool.ts",
  // Deadlines of gRPC, which are instants of the machine's wall clock.
  "src/temporal/client.ts",
  // A request on loopback for the metrics of Temporal's SDK.
  "src/temporal/runtime.ts",
  // A text that workflow threads run before the SDK.
  "src/temporal/workflow-threads.ts",
  // The times of log lines.
  "src/observability/logger.ts",
];

/** Returns the code without its comments. */
function codeOf(text: string): string {
  return text.replaceAll(/^\s*(?:\/\*\*|\*|\/\/).*$/gm, "");
}

function takesTime(text: string): boolean {
  const code = codeOf(text);
  return TAKES_TIME.some((pattern) => pattern.test(code));
}

it("only composition roots and programs of users take the machine's time", async () => {
  const files = (await readdir(join(ROOT, "src"), { recursive: true }))
    .filter((name) => name.endsWith(".ts"))
    .map((name) => `src/${name}`);
  const texts = await Promise.all(
    files.map(async (file) => [file, await readFile(join(ROOT, file), "utf8")] as const),
  );
  const found = texts.filter(([, text]) => takesTime(text)).map(([file]) => file);
  const isAllowed = (file: string): boolean =>
    ALLOWED.some((allowed) => (typeof allowed === "string" ? allowed === file : allowed.test(file)));
  expect(found.filter((file) => !isAllowed(file))).toEqual([]);
  // Each exception is needed.
  expect(
    ALLOWED.filter(
      (allowed) =>
        !found.some((file) => (typeof allowed === "string" ? allowed === file : allowed.test(file))),
    ),
  ).toEqual([]);
});

it.each([
  "timer = setTimeout(look, 5);",
  "const timer = setInterval(look, 5);",
  "this.#retiring.forEach(clearTimeout);",
  "const { pause = setTimeout } = options;",
  "const now = options.now ?? Date.now;",
  "const began = performance.now();",
  "const at = new Date();",
  "const from = process.hrtime.bigint();",
  "fetch(url, { signal: AbortSignal.timeout(5) });",
  'import { setTimeout as delay } from "node:timers/promises";',
  'import { machineTimers } from "../runtime/machine-timers.ts";',
  "const clock = systemClock;",
])("finds: %s", (line) => {
  expect(takesTime(line)).toBe(true);
});

it.each([
  "timers.after(5, look);",
  "socket.setTimeout(5);",
  "const at = new Date(clock.now());",
  "  // `setTimeout` would be late.",
  " * Unlike `Date.now`, it does not jump.",
])("accepts: %s", (line) => {
  expect(takesTime(line)).toBe(false);
});
