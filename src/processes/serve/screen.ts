/** The output of `npm start`: one line per step. On a terminal, lines of steps in progress update themselves. */
import type { Paint } from "#cli/colours.ts";
import { cut, widthOf } from "#cli/table.ts";

const FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const FRAME_MS = 120;
/** Time between two lines about the same step where lines cannot update themselves. */
const PLAIN_UPDATE_MS = 30_000;
/** Width of the steps' names, in characters. */
const NAME_WIDTH = 13;
const CLEAR_BELOW = "\u001b[J";

/** A step in progress. */
export interface Step {
  /** Shows how far it is. */
  readonly update: (text: string) => void;
  /** Shows its result, and ends it. */
  readonly done: (text: string) => void;
}

type Rows = readonly (readonly [label: string, value: string])[];

export interface StartScreen {
  /** Begins a step. */
  readonly step: (name: string) => Step;
  /** Prints a line that stays. */
  readonly say: (line: string) => void;
  /** Prints labelled lines in a box. */
  readonly box: (before: string, rows: Rows) => void;
  /** Ends the steps in progress: their lines stay as they are. */
  readonly end: () => void;
}

export interface ScreenOptions {
  readonly write: (text: string) => void;
  /** Returns the width of the terminal, in characters; undefined if the output is none. */
  readonly columns: () => number | undefined;
  readonly paint: Paint;
  /** Returns a monotonic time, in milliseconds. */
  readonly monotonicMs: () => number;
}

interface LiveStep {
  readonly name: string;
  readonly startedMs: number;
  text: string;
}

function named(name: string, text: string): string {
  return `${name.padEnd(NAME_WIDTH)}  ${text}`.trimEnd();
}

/** Prints each result, what a step does next, and how far a long step is every 30 seconds. */
function plainScreen(options: ScreenOptions): StartScreen {
  const { write, monotonicMs } = options;
  return {
    step: (name) => {
      let saidMs = -Infinity;
      let said = "";
      return {
        update: (text) => {
          const now = monotonicMs();
          const what = text.replaceAll(/\d+/g, "");
          if (what !== said || now - saidMs >= PLAIN_UPDATE_MS) {
            said = what;
            saidMs = now;
            write(`… ${named(name, text)}\n`);
          }
        },
        done: (text) => write(`✓ ${named(name, text)}\n`),
      };
    },
    say: (line) => write(`${line}\n`),
    box: (before, rows) => write(boxOf(before, rows, options.columns())),
    end: () => undefined,
  };
}

/** Redraws the lines of all steps in progress, below the lines that stay. */
function liveScreen(options: ScreenOptions): StartScreen {
  const { write, columns, paint, monotonicMs } = options;
  const live = new Set<LiveStep>();
  let drawn = 0;
  let timer: NodeJS.Timeout | undefined;
  const lineOf = ({ name, startedMs, text }: LiveStep): string => {
    const tookMs = monotonicMs() - startedMs;
    const frame = FRAMES[Math.floor(tookMs / FRAME_MS) % FRAMES.length] ?? "";
    // A line that wraps would be two, and the next drawing would leave one of them.
    return `${paint("yellow", frame)} ${cut(named(name, text), (columns() ?? 80) - 3)}\n`;
  };
  const draw = (stays = ""): void => {
    const up = drawn === 0 ? "" : `\u001b[${drawn}A`;
    const lines = [...live].map(lineOf);
    write(`\r${up}${CLEAR_BELOW}${stays}${lines.join("")}`);
    drawn = lines.length;
    if (lines.length === 0) {
      clearInterval(timer);
      timer = undefined;
    } else {
      timer ??= setInterval(draw, FRAME_MS).unref();
    }
  };
  return {
    step: (name) => {
      const step: LiveStep = { name, startedMs: monotonicMs(), text: "" };
      live.add(step);
      draw();
      return {
        update: (text) => {
          step.text = text;
          draw();
        },
        done: (text) => {
          live.delete(step);
          draw(`${paint("green", "✓")} ${named(name, text)}\n`);
        },
      };
    },
    say: (line) => draw(`${line}\n`),
    box: (before, rows) => draw(boxOf(before, rows, columns())),
    end: () => {
      if (live.size > 0) {
        draw();
        live.clear();
        drawn = 0;
        clearInterval(timer);
      }
    },
  };
}

/** Returns the rows in a frame; without its sides if a row is wider than the terminal, so that links stay whole. */
function framed(rows: readonly string[], columns: number): string[] {
  const inner = Math.max(...rows.map(widthOf));
  if (inner + 4 > columns) {
    const rule = "─".repeat(columns);
    return [rule, ...rows, rule];
  }
  const rule = "─".repeat(inner + 2);
  return [`╭${rule}╮`, ...rows.map((row) => `│ ${row}${" ".repeat(inner - widthOf(row))} │`), `╰${rule}╯`];
}

/** Returns labelled lines, in a frame if there is a terminal, of so many columns. */
function boxOf(before: string, rows: Rows, columns: number | undefined): string {
  const width = Math.max(...rows.map(([label]) => label.length));
  const lines = rows.map(([label, value]) => `${label.padEnd(width)}  ${value}`);
  return `${[before, ...(columns === undefined ? lines : framed(lines, columns))].join("\n")}\n`;
}

/** Creates the screen for the output: a terminal, or a file or pipe. */
export function createScreen(options: ScreenOptions): StartScreen {
  return options.columns() === undefined ? plainScreen(options) : liveScreen(options);
}
