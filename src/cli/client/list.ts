/** Prints a tenant's lists, by page or in full. */
import type { Command } from "commander";
import type { List, PageOptions } from "#lib/client/paging.ts";
import type { CliContext } from "../context.ts";
import { type PageOfList, withPageOfList } from "../list-options.ts";
import { printableJson, printPage } from "../output.ts";
import { wholeNumber } from "./command.ts";
import { given } from "./given.ts";
import type { ClientOptions } from "./open-client.ts";

export interface PageChoice extends ClientOptions, PageOfList {
  readonly all?: boolean;
  readonly wide?: boolean;
}

/** Adds the options that every list has. */
export function withPages(command: Command): Command {
  return withPageOfList(command).option("--all", "print all pages");
}

/** Converts the options to the API's page parameters. */
export function pageOf({ limit, cursor }: PageChoice): PageOptions {
  return given({ limit: limit === undefined ? undefined : wholeNumber("--limit", limit), cursor });
}

/** Prints one page, or every item with `--all`; with `--all --json`, one object per line. */
export async function printList<Item extends object>(
  context: CliContext,
  list: List<Item>,
  columns: readonly string[],
  options: PageChoice,
): Promise<void> {
  if (options.all !== true) {
    printPage(context, await list.page(), columns, options);
    return;
  }
  if (options.json === true) {
    for await (const item of list) {
      context.stdout(`${printableJson(item)}\n`);
    }
    return;
  }
  const data: Item[] = [];
  for await (const item of list) {
    data.push(item);
  }
  printPage(context, { data, next_cursor: null }, columns, options);
}
