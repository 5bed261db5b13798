import type { Command } from "commander";

/** Which page of a list. */
export interface PageOfList {
  readonly limit?: string;
  readonly cursor?: string;
}

export interface ListOptions extends PageOfList {
  readonly json?: boolean;
}

/** Adds what says which page. */
export function withPageOfList(command: Command): Command {
  return command
    .option("--limit <number>", "most items of a page, 1 to 100")
    .option("--cursor <cursor>", "where the page before ended");
}

/** Adds what every `list` of an operator takes. */
export function withListOptions(command: Command): Command {
  return withPageOfList(command).option("--json", "print the API's object");
}

/** The options as a query string, with filters that were given. */
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
