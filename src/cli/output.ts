/** Output of commands: the API's objects with `--json`, otherwise text for people. */
import { escapeBeyondJson, escapeControls } from "#domain/shown-text.ts";
import { stringifyWithRaw } from "#lib/client/raw-json.ts";
import type { Resource } from "./admin-client.ts";
import { colourOfState, painter } from "./colours.ts";
import type { CliContext } from "./context.ts";
import { type Cell, layTable } from "./table.ts";
import { shownTime } from "./times.ts";

export interface OutputOptions {
  readonly json?: boolean;
  /** Prints tables in full width, also on a terminal. */
  readonly wide?: boolean;
}

/** Escapes control characters, so that text from others cannot control the terminal, or show other text than it is. */
export const printable = escapeControls;

/** Returns a value as JSON that means the same and cannot control the terminal. */
export function printableJson(value: unknown, indent?: number): string {
  return escapeBeyondJson(stringifyWithRaw(value, indent));
}

/**
 * Returns the writer of an output. People read a terminal: also where a command prints text unchanged, no character of a
 * tenant reorders it. A file or a program gets every byte.
 */
export function writerTo(output: Pick<NodeJS.WriteStream, "isTTY" | "write">): (text: string) => void {
  return (text) => void output.write(output.isTTY ? escapeBeyondJson(text) : text);
}

function text(value: unknown): string {
  if (value === null || value === undefined || value === "") {
    return "-";
  }
  if (Array.isArray(value)) {
    return value.length === 0 ? "-" : value.map(text).join(" ");
  }
  return printable(typeof value === "string" ? value : stringifyWithRaw(value));
}

function printJson(context: CliContext, value: unknown): void {
  context.stdout(`${printableJson(value, 2)}\n`);
}

/** Prints one object, one line per member. Times are local, as in tables. */
export function printResource(context: CliContext, resource: object, options: OutputOptions): void {
  if (options.json === true) {
    printJson(context, resource);
    return;
  }
  const paint = painter(context.terminal?.colour === true);
  const width = Math.max(...Object.keys(resource).map((name) => name.length));
  for (const [name, value] of Object.entries(resource)) {
    const colour = isState(name) ? colourOfState(value) : undefined;
    const time = typeof value === "string" ? shownTime(value) : undefined;
    context.stdout(`${name.padEnd(width)}  ${paint(colour, time ?? text(value))}\n`);
  }
}

/** Prints that something is proven, and the facts of the proof. */
export function printVerified(
  context: CliContext,
  what: string,
  facts: object,
  options: OutputOptions,
): void {
  if (options.json !== true) {
    const paint = painter(context.terminal?.colour === true);
    context.stdout(`${paint("green", "Verified:")} ${what}.\n`);
  }
  printResource(context, facts, options);
}

function isState(name: string): boolean {
  return name === "state" || name.endsWith("_state");
}

/** Returns a member as a cell: times are local, states have a colour. */
function cellOf(name: string, given: unknown): Cell {
  // A health has many members; a table shows its word.
  const value =
    name === "health" ? ((given as { readonly status?: unknown } | null)?.status ?? given) : given;
  const time = typeof value === "string" ? shownTime(value) : undefined;
  if (time !== undefined) {
    return { text: time, whole: true };
  }
  return isState(name) || name === "health"
    ? { text: text(value), whole: true, colour: colourOfState(value) }
    : { text: text(value) };
}

/**
 * Prints objects as a table with the given members as columns, the most important first. On a terminal the table fits
 * its width, unless `--wide` is given.
 */
function printTable(
  context: CliContext,
  rows: readonly Resource[],
  columns: readonly string[],
  { wide }: OutputOptions,
): void {
  const { colour = false, columns: width } = context.terminal ?? {};
  const paint = painter(colour);
  const { lines, hidden } = layTable(
    columns.map((name) => name.toUpperCase()),
    rows.map((row) => columns.map((name) => cellOf(name, row[name]))),
    { width: wide === true ? undefined : width, paint: (cell, shown) => paint(cell.colour, shown) },
  );
  context.stdout(`${lines.join("\n")}\n`);
  if (hidden.length > 0) {
    context.stderr(`Columns that do not fit: ${hidden.join(", ")}. --wide shows them.\n`);
  }
}

/** Prints a page of objects as a table with the given members as columns. */
export function printPage(
  context: CliContext,
  given: object,
  columns: readonly string[],
  options: OutputOptions,
): void {
  const page = given as Resource;
  if (options.json === true) {
    printJson(context, page);
    return;
  }
  printTable(context, page["data"] as readonly Resource[], columns, options);
  if ((page["next_cursor"] ?? null) !== null) {
    context.stderr(`For the next page: --cursor ${text(page["next_cursor"])}\n`);
  }
}
