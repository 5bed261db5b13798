/**
 * A failure in test/unit is final, so nothing there depends on the machine. This test finds mentions of real time, and of
 * processes. Sockets, processes and threads are also noticed when they are used (test/support/without-machine.ts), but
 * not a process that its caller waits for.
 */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";

const UNIT = join(import.meta.dirname, "..");
/** These name what they look for. */
const SEARCHES = [import.meta.filename, join(import.meta.dirname, "time-is-an-argument.test.ts")];

/** Each has no substitute in a file of test/unit. */
const NEVER = [
  /\beventually\(/,
  /\bhrtime\b/,
  /\bAbortSignal\.timeout\(/,
  /\bvi\.wait(?:For|Until)\(/,
  /\bexpect\.poll\(/,
  /\bnode:timers\/promises\b/,
  /\bnode:child_process\b/,
  /\bmachineTimers\b/,
];
/** A file may use these once it has faked them. */
const FAKED = [
  ["Date", /\bDate\.now\b|\bnew Date\(\)/],
  ["performance", /\bperformance\.now\b/],
  ["setTimeout", /\bsetTimeout\(/],
  ["setInterval", /\bsetInterval\(/],
] as const;

function isFaked(text: string, name: string): boolean {
  return new RegExp(String.raw`\buseFakeTimers\((?:\)|\{ toFake: \[[^\]]*"${name}")`).test(text);
}

/** Returns each mention, as `path:line: mention`. */
function mentionsIn(path: string, text: string): string[] {
  const forbidden = [
    ...NEVER,
    ...FAKED.filter(([name]) => !isFaked(text, name)).map(([, pattern]) => pattern),
  ];
  return text.split("\n").flatMap((line, index) =>
    forbidden.flatMap((pattern) => {
      const [found] = pattern.exec(line) ?? [];
      return found === undefined ? [] : [`${path}:${index + 1}: ${found}`];
    }),
  );
}

it("no file of test/unit mentions real time: move one that needs it to test/machine", async () => {
  const names = (await readdir(UNIT, { recursive: true })).filter((name) => name.endsWith(".ts"));
  const others = names.filter((name) => !SEARCHES.includes(join(UNIT, name)));
  const mentions = await Promise.all(
    others.map(async (name) => mentionsIn(`test/unit/${name}`, await readFile(join(UNIT, name), "utf8"))),
  );
  expect(others.length).toBeGreaterThan(100);
  expect(mentions.flat()).toEqual([]);
});

it.each([
  ['await eventually(() => done, "the end");', "eventually("],
  ["const from = process.hrtime.bigint();", "hrtime"],
  ["const signal = AbortSignal.timeout(20);", "AbortSignal.timeout("],
  ["await vi.waitFor(() => done);", "vi.waitFor("],
  ["await expect.poll(() => done).toBe(true);", "expect.poll("],
  ['import { setTimeout as delay } from "node:timers/promises";', "node:timers/promises"],
  ['import { execFileSync } from "node:child_process";', "node:child_process"],
  ["const from = Date.now();", "Date.now"],
  ["const from = new Date();", "new Date()"],
  ["const from = performance.now();", "performance.now"],
  ["setTimeout(resolve, 5);", "setTimeout("],
  ["setInterval(look, 5);", "setInterval("],
  ["const starts = new Starts(machineTimers, log);", "machineTimers"],
  ['vi.useFakeTimers({ toFake: ["Date"] }); setTimeout(resolve, 5);', "setTimeout("],
])("finds the mention in: %s", (line, mention) => {
  expect(mentionsIn("x", `\n${line}`)).toEqual([`x:2: ${mention}`]);
});

it.each([
  "vi.useFakeTimers(); setTimeout(resolve, performance.now());",
  'vi.useFakeTimers({ toFake: ["Date", "setInterval"] }); setInterval(look, 5);',
  "const time = new SimulatedTime(); time.after(5, resolve);",
  "await new Promise(setImmediate);",
])("accepts: %s", (line) => {
  expect(mentionsIn("x", line)).toEqual([]);
});
