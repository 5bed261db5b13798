/** Tables and objects as people see them. */
import { expect, test } from "vitest";
import type { Terminal } from "#cli/context.ts";
import {
  type OutputOptions,
  printable,
  printableJson,
  printPage,
  printResource,
  writerTo,
} from "#cli/output.ts";
import { wantsColour } from "#config/config.ts";

const ID = "dlv_06gzm2p962w98qdb6sbrsqvv";
const URL = `https://hooks.example.com/${"x".repeat(180)}`;
const COLUMNS = ["id", "state", "url", "created_at", "reason"];
const PAGE = {
  data: [
    {
      id: ID,
      state: "DELIVERED",
      url: URL,
      created_at: "2026-11-25T01:02:03.004Z",
      reason: "attempts_exhausted",
    },
    {
      id: ID,
      state: "RETRYING",
      url: "https://a.example",
      created_at: "2026-11-25T01:02:03.004Z",
      reason: null,
    },
  ],
  next_cursor: null,
};

function print(terminal: Partial<Terminal>, options: OutputOptions = {}): { out: string; err: string } {
  const out: string[] = [];
  const err: string[] = [];
  const context = {
    settings: () => expect.fail("no settings are needed"),
    stdout: (text: string) => void out.push(text),
    stderr: (text: string) => void err.push(text),
    fetch,
    terminal: { colour: false, progress: false, ...terminal },
  };
  printPage(context, PAGE, COLUMNS, options);
  return { out: out.join(""), err: err.join("") };
}

function lengths(text: string): number[] {
  return text
    .trimEnd()
    .split("\n")
    .map((line) => line.length);
}

test("a table is as wide as its values in a pipe and with --wide", () => {
  for (const { out, err } of [print({}), print({ columns: 80 }, { wide: true })]) {
    expect(out).toContain(URL);
    expect(out).toContain("attempts_exhausted");
    expect(err).toBe("");
  }
});

test.each([80, 100, 120, 200])(
  "a table fits a terminal of %d columns, with whole ids, states and times",
  (columns) => {
    const { out } = print({ columns });
    expect(Math.max(...lengths(out))).toBeLessThanOrEqual(columns);
    expect(out).toContain(`${ID}  DELIVERED  https://hoo`);
    expect(out).toContain("…");
    expect(out).toMatch(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/);
  },
);

test("the last columns are left out of a narrow terminal, which is said", () => {
  const { out, err } = print({ columns: 80 });
  expect(out).not.toContain("REASON");
  expect(err).toBe("Columns that do not fit: REASON. --wide shows them.\n");
  expect(print({ columns: 10 }).out).toMatch(new RegExp(`^ID\n${ID}\n`));
});

test("states have colours on a terminal, and nothing else changes", () => {
  const { out } = print({ columns: 120, colour: true });
  expect(out).toContain("\u001b[32mDELIVERED\u001b[0m  ");
  expect(out).toContain("\u001b[33mRETRYING\u001b[0m   ");
  // oxlint-disable-next-line no-control-regex
  expect(out.replaceAll(/\u001b\[\d*m/g, "")).toBe(print({ columns: 120 }).out);
  const shown: string[] = [];
  printResource(
    {
      settings: () => expect.fail("no settings are needed"),
      stdout: (text) => void shown.push(text),
      stderr: () => undefined,
      fetch,
      terminal: { colour: true, progress: false },
    },
    { id: "ep_1", state: "DISABLED" },
    {},
  );
  expect(shown).toEqual(["id     ep_1\n", "state  \u001b[31mDISABLED\u001b[0m\n"]);
});

test("--json is the page itself", () => {
  expect(JSON.parse(print({ columns: 20, colour: true }, { json: true }).out)).toEqual(PAGE);
});

test.each([
  [true, {}, true],
  [false, {}, false],
  [true, { NO_COLOR: "1" }, false],
  [true, { NO_COLOR: "" }, true],
  [true, { TERM: "dumb" }, false],
  [false, { FORCE_COLOR: "1" }, true],
  [true, { FORCE_COLOR: "0" }, false],
  [false, { FORCE_COLOR: "1", NO_COLOR: "1" }, true],
])("colours on a terminal (%s) with %j: %s", (isTerminal, environment, wanted) => {
  expect(wantsColour(isTerminal, environment)).toBe(wanted);
});

test.each(["\u001b[2J", "\u009b2J", "a\u202eb", "\u2066c\u2069", "\u061c"])(
  "text from others cannot control the terminal: %j",
  (text) => {
    // oxlint-disable-next-line no-control-regex
    const controls = /[\u0000-\u001f\u007f-\u009f\u061c\u202a-\u202e\u2066-\u2069]/;
    expect(printable(text)).not.toMatch(controls);
    expect(printableJson({ text })).not.toMatch(controls);
    expect(JSON.parse(printableJson({ text }))).toEqual({ text });
  },
);

test("a terminal gets no reordering character, also of lines that a command prints unchanged; a file gets every byte", () => {
  const line = '{"name":"a\u202eb"}\u001b[0m\n';
  const written = (isTTY: boolean): string => {
    let all = "";
    const write = (text: unknown): boolean => {
      all += String(text);
      return true;
    };
    writerTo({ isTTY, write })(line);
    return all;
  };
  expect(written(true)).toBe(String.raw`{"name":"a\u202eb"}` + "\u001b[0m\n");
  expect(written(false)).toBe(line);
});
