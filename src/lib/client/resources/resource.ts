/** What the generated resources share. */
import { idempotencyKeyOf, type IdempotentOptions } from "../idempotency.ts";
import { List, type ListFilter } from "../paging.ts";
import type { ApiCall, CallOptions, Transport } from "../transport.ts";

/** Returns a path whose values are encoded, each as one segment. */
export function at(parts: TemplateStringsArray, ...ids: readonly (string | number)[]): string {
  return String.raw({ raw: parts }, ...ids.map((id) => encodeURIComponent(id)));
}

/** The arguments of a function that is written by hand, without the transport. */
export type ByHand<F> = F extends (transport: Transport, ...args: infer Args) => unknown ? Args : never;

/** Makes the calls of one resource. */
export class Resource {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Calls a function that is written by hand. */
  protected byHand<Args extends readonly unknown[], T>(
    method: (transport: Transport, ...args: Args) => T,
    ...args: Args
  ): T {
    return method(this.#transport, ...args);
  }

  protected async request<T>(
    method: ApiCall["method"],
    path: string,
    options: CallOptions,
    call: Pick<ApiCall, "query" | "body" | "repeatable"> = {},
  ): Promise<T> {
    return await this.#transport.call<T>({ method, path, ...call, ...options });
  }

  /** Sends a POST with an idempotency key, which makes it safe to repeat. */
  protected async post<T>(path: string, body: unknown, options: IdempotentOptions): Promise<T> {
    const idempotencyKey = idempotencyKeyOf(options);
    return await this.#transport.call<T>({ method: "POST", path, body, ...options, idempotencyKey });
  }

  protected pages<Item>(path: string, filter: ListFilter): List<Item> {
    return new List(this.#transport, path, filter);
  }
}

/** Reads a list to its end. */
export async function all<Item>(list: AsyncIterable<Item>): Promise<readonly Item[]> {
  const items: Item[] = [];
  for await (const item of list) {
    items.push(item);
  }
  return items;
}
