/** Lists of a tenant: page by page, or all of it. */
import type { Command } from "commander";
import type { List, PageOptions } from "../../lib/client/paging.ts";
import { stringifyWithRaw } from "../../lib/client/raw-json.ts";
import type { CliContext } from "../context.ts";
import { type PageOfList, withPageOfList } from "../list-options.ts";
import { printPage } from "../output.ts";
import { wholeNumber } from "./command.ts";
import { given } from "./given.ts";
import type { ClientOptions } from "./open-client.ts";

export interface PageChoice extends ClientOptions, PageOfList {
  readonly all?: boolean;
}

/** Adds what every list takes. */
export function withPages(command: Command): Command {
  return withPageOfList(command).option("--all", "every page, one after the other");
}

/** The part of a list that was asked for. */
export function pageOf({ limit, cursor }: PageChoice): PageOptions {
  return given({ limit: limit === undefined ? undefined : wholeNumber("--limit", limit), cursor });
}

/** Prints the page, or with `--all` every item; then `--json` is an object a line. */
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
      context.stdout(`${stringifyWithRaw(item)}\n`);
    }
    return;
  }
  const data: Item[] = [];
  for await (const item of list) {
    data.push(item);
  }
  printPage(context, { data, next_cursor: null }, columns, options);
}
