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

/** The options as a query string. */
export function listQuery({ limit, cursor }: ListOptions): string {
  const query = new URLSearchParams();
  if (limit !== undefined) {
    query.set("limit", limit);
  }
  if (cursor !== undefined) {
    query.set("cursor", cursor);
  }
  return query.size === 0 ? "" : `?${query.toString()}`;
}
