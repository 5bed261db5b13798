import type { Command } from "commander";

export interface ListOptions {
  readonly json?: boolean;
  readonly limit?: string;
  readonly cursor?: string;
}

/** Adds what every `list` takes. */
export function withListOptions(command: Command): Command {
  return command
    .option("--limit <number>", "most items, 1 to 100")
    .option("--cursor <cursor>", "where the page before ended")
    .option("--json", "print the API's object");
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
