/** Options that lists share. */
import type { Command } from "commander";
import { timeOption } from "./times.ts";

/** Selects a page of a list. */
export interface PageOfList {
  readonly limit?: string;
  readonly cursor?: string;
}

export interface ListOptions extends PageOfList {
  readonly json?: boolean;
  readonly wide?: boolean;
}

/** Adds the option of every command that prints a table. */
export function withTable(command: Command): Command {
  return command.option("--wide", "print the table in full, even if it is wider than the terminal");
}

/** Adds the options that select a page, and that of its table. */
export function withPageOfList(command: Command): Command {
  return withTable(
    command
      .option("--limit <number>", "maximum items per page, 1 to 100")
      .option("--cursor <cursor>", "cursor from the previous page"),
  );
}

/** A span of time, RFC 3339. */
export interface TimeRange {
  readonly from?: string;
  readonly to?: string;
}

/** Adds the options that select a span of time. */
export function withTimeRange(command: Command): Command {
  return command
    .addOption(timeOption("--from <time>", "at or after this time"))
    .addOption(timeOption("--to <time>", "before this time"));
}

/** Adds the options of every operator's `list`. */
export function withListOptions(command: Command): Command {
  return withPageOfList(command).option("--json", "print the API's object as JSON");
}

/** Returns the options and filters as a query string. */
export function listQuery(
  { limit, cursor }: ListOptions,
  filters: Readonly<Record<string, string | undefined>> = {},
): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...filters, limit, cursor })) {
    if (value !== undefined) {
      query.set(name, value);
    }
  }
  return query.size === 0 ? "" : `?${query.toString()}`;
}
