/** What `npm start` shows, on a terminal and in a file. */
import { expect, test, vi } from "vitest";
import { painter } from "#cli/colours.ts";
import { createScreen, type StartScreen } from "#processes/serve/screen.ts";

/** Returns the lines that a terminal shows after the output. */
function terminalLines(output: string): string[] {
  const lines = [""];
  let row = 0;
  // oxlint-disable-next-line no-control-regex
  for (const [token] of output.matchAll(/\u001b\[(?:\d+A|J)|\r|\n|[^\r\n\u001b]+/g)) {
    if (token === "\n") {
      row += 1;
      lines[row] ??= "";
    } else if (token === "\u001b[J") {
      lines.length = row + 1;
      lines[row] = "";
    } else if (token.startsWith("\u001b[")) {
      row -= Number.parseInt(token.slice(2), 10);
    } else if (token !== "\r") {
      lines[row] += token;
    }
  }
  return lines;
}

interface Shown {
  readonly screen: StartScreen;
  readonly output: () => string;
  now: number;
}

function show(columns: number | undefined, colour = false): Shown {
  const written: string[] = [];
  const shown: Shown = {
    screen: createScreen({
      write: (text) => void written.push(text),
      columns: () => columns,
      paint: painter(colour),
      monotonicMs: () => shown.now,
    }),
    output: () => written.join(""),
    now: 0,
  };
  return shown;
}

test("on a terminal each step is one line, which updates itself until its result stays", () => {
  vi.useFakeTimers();
  const { screen, output } = show(60);
  screen.say("Signet");
  const database = screen.step("PostgreSQL");
  const temporal = screen.step("Temporal");
  temporal.update("building, 5 s");
  temporal.update(`building, 10 s ${"x".repeat(100)}`);
  expect(terminalLines(output())).toEqual([
    "Signet",
    "⠋ PostgreSQL",
    expect.stringMatching(/^⠋ Temporal {7}building, 10 s x+…$/),
    "",
  ]);
  expect(Math.max(...terminalLines(output()).map((line) => line.length))).toBeLessThan(60);
  database.done("127.0.0.1:5432");
  screen.say("a message");
  temporal.done("127.0.0.1:7233");
  expect(terminalLines(output())).toEqual([
    "Signet",
    "✓ PostgreSQL     127.0.0.1:5432",
    "a message",
    "✓ Temporal       127.0.0.1:7233",
    "",
  ]);
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

test("steps in progress stay on the screen when it ends, and nothing moves afterwards", () => {
  vi.useFakeTimers();
  const { screen, output } = show(60);
  screen.step("Temporal").update("building");
  screen.end();
  screen.say("Ending");
  expect(terminalLines(output())).toEqual(["⠋ Temporal       building", "Ending", ""]);
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

test("in a file there is one line per result, and one every 30 seconds about a long step", () => {
  const shown = show(undefined);
  const step = shown.screen.step("Temporal");
  step.update("downloading");
  for (const second of [0, 5, 29, 30, 45, 61]) {
    shown.now = second * 1_000;
    step.update(`building, ${second} s`);
  }
  step.done("127.0.0.1:7233");
  expect(shown.output()).toBe(
    [
      "… Temporal       downloading",
      "… Temporal       building, 0 s",
      "… Temporal       building, 30 s",
      "… Temporal       building, 61 s",
      "✓ Temporal       127.0.0.1:7233",
      "",
    ].join("\n"),
  );
});

test("colours are used only where they are wanted", () => {
  vi.useFakeTimers();
  const coloured = show(60, true);
  coloured.screen.step("API").done("ready");
  expect(coloured.output()).toContain("\u001b[32m✓\u001b[0m API");
  const plain = show(60);
  plain.screen.step("API").done("ready");
  expect(plain.output()).not.toContain("\u001b[32m");
  vi.useRealTimers();
});

test("the box fits the terminal, and leaves links whole", () => {
  const rows = [
    ["Portal", `http://127.0.0.1:8080/portal/${"x".repeat(40)}`],
    ["API", "http://127.0.0.1:8080/docs"],
  ] as const;
  const wide = show(100);
  wide.screen.box("signet ready", rows);
  const lines = terminalLines(wide.output());
  expect(lines).toEqual([
    "signet ready",
    `╭${"─".repeat(79)}╮`,
    `│ Portal  ${rows[0][1]} │`,
    `│ API     ${rows[1][1]}${" ".repeat(43)} │`,
    `╰${"─".repeat(79)}╯`,
    "",
  ]);
  const narrow = show(60);
  narrow.screen.box("signet ready", rows);
  expect(terminalLines(narrow.output())).toContain(`Portal  ${rows[0][1]}`);
  const file = show(undefined);
  file.screen.box("signet ready", rows);
  expect(file.output()).toBe(`signet ready\nPortal  ${rows[0][1]}\nAPI     ${rows[1][1]}\n`);
});
