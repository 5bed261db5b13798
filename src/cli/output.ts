/** Output of commands: the API's objects with `--json`, otherwise text for people. */
import { stringifyWithRaw } from "../lib/client/raw-json.ts";
import type { Resource } from "./admin-client.ts";
import type { CliContext } from "./context.ts";

export interface OutputOptions {
  readonly json?: boolean;
}

// oxlint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/g;

/** Escapes control characters, so that text from others cannot control the terminal. */
export function printable(text: string): string {
  return text.replaceAll(CONTROL, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
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
  context.stdout(`${stringifyWithRaw(value, 2)}\n`);
}

/** Prints one object, one line per member. */
export function printResource(context: CliContext, resource: object, options: OutputOptions): void {
  if (options.json === true) {
    printJson(context, resource);
    return;
  }
  const width = Math.max(...Object.keys(resource).map((name) => name.length));
  for (const [name, value] of Object.entries(resource)) {
    context.stdout(`${name.padEnd(width)}  ${text(value)}\n`);
  }
}

function printTable(context: CliContext, rows: readonly Resource[], columns: readonly string[]): void {
  const cells = [
    columns.map((name) => name.toUpperCase()),
    ...rows.map((row) => columns.map((name) => text(row[name]))),
  ];
  const widths = columns.map((_name, index) => Math.max(...cells.map((line) => line[index]?.length ?? 0)));
  for (const line of cells) {
    context.stdout(
      `${line
        .map((cell, index) => cell.padEnd(widths[index] ?? 0))
        .join("  ")
        .trimEnd()}\n`,
    );
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
  printTable(context, page["data"] as readonly Resource[], columns);
  if ((page["next_cursor"] ?? null) !== null) {
    context.stderr(`For the next page: --cursor ${text(page["next_cursor"])}\n`);
  }
}
