/** Lists that are read page by page. */
import type { CallOptions, Query, Transport } from "./transport.ts";

/** One page. */
export interface Page<Item> {
  readonly data: readonly Item[];
  /** Cursor of the next page; null on the last one. */
  readonly next_cursor: string | null;
}

/** Which part of a list to read. */
export interface PageOptions extends CallOptions {
  /** Items per page, 1 to 100. */
  readonly limit?: number;
  readonly cursor?: string | undefined;
}

/** Filter of a list. */
export interface ListFilter extends PageOptions {
  readonly metadata?: Readonly<Record<string, string>>;
}

/** Splits options into the API's query and the rest. */
export function splitFilter(filter: ListFilter): {
  readonly query: Query;
  readonly cursor: string | undefined;
  readonly signal: AbortSignal | undefined;
} {
  const { cursor, signal, metadata = {}, ...query } = filter;
  const members = Object.entries(metadata).map(([key, value]) => [`metadata[${key}]`, value]);
  // A filter adds only texts and times.
  return { query: { ...query, ...Object.fromEntries(members) }, cursor, signal };
}

/**
 * A list: `for await (const item of list)` reads pages as needed, `page()` reads one.
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

  /** Returns the page at the cursor, or the first one. */
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
