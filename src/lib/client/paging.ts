/** Lists that are read page by page. */
import type { CallOptions, Query, Transport } from "./transport.ts";

/** One page, as it came. */
export interface Page<Item> {
  readonly data: readonly Item[];
  /** Where the next page starts; null on the last one. */
  readonly next_cursor: string | null;
}

/** Which part of a list to read. */
export interface PageOptions extends CallOptions {
  /** Items per page, 1 to 100. */
  readonly limit?: number;
  readonly cursor?: string;
}

/** What a list is chosen by. */
export interface ListFilter extends PageOptions {
  readonly metadata?: Readonly<Record<string, string>>;
}

/** The filter as the API's query, and what is none of it. */
export function splitFilter(filter: ListFilter): {
  readonly query: Query;
  readonly cursor: string | undefined;
  readonly signal: AbortSignal | undefined;
} {
  const { cursor, signal, metadata = {}, ...query } = filter;
  const members = Object.entries(metadata).map(([key, value]) => [`metadata[${key}]`, value]);
  // What a filter adds to the page are texts and times.
  return { query: { ...query, ...Object.fromEntries(members) }, cursor, signal };
}

/**
 * A list: `for await (const item of list)` reads as many pages as are needed, `page()` reads one.
 */
export class List<Item> implements AsyncIterable<Item> {
  readonly #transport: Transport;
  readonly #path: string;
  readonly #query: Query;
  readonly #cursor: string | undefined;
  readonly #options: CallOptions;

  constructor(transport: Transport, path: string, filter: ListFilter) {
    const { query, cursor, signal } = splitFilter(filter);
    this.#transport = transport;
    this.#path = path;
    this.#query = query;
    this.#cursor = cursor;
    this.#options = signal === undefined ? {} : { signal };
  }

  /** The page that starts at the cursor, or the first one. */
  async page(cursor: string | undefined = this.#cursor): Promise<Page<Item>> {
    return await this.#transport.call<Page<Item>>({
      method: "GET",
      path: this.#path,
      query: { ...this.#query, cursor },
      ...this.#options,
    });
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void, void> {
    let page = await this.page();
    for (;;) {
      yield* page.data;
      if (page.next_cursor === null) {
        return;
      }
      page = await this.page(page.next_cursor);
    }
  }
}
