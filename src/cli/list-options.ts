import type { Command } from "commander";

/** Selects a page of a list. */
export interface PageOfList {
  readonly limit?: string;
  readonly cursor?: string;
}

export interface ListOptions extends PageOfList {
  readonly json?: boolean;
}

/** Adds the options that select a page. */
export function withPageOfList(command: Command): Command {
  return command
    .option("--limit <number>", "maximum items per page, 1 to 100")
    .option("--cursor <cursor>", "cursor from the previous page");
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
