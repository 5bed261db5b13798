/** Helpers to read streams of the client library. */
import type { Delivery } from "#lib/client/api-types.ts";

/** Returns the first delivery that the stream reports as delivered. */
export async function untilDelivered(stream: AsyncIterable<Delivery>): Promise<Delivery | undefined> {
  for await (const delivery of stream) {
    if (delivery.state === "DELIVERED") {
      return delivery;
    }
  }
  return undefined;
}

/** Collects all items. */
export async function collected<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) {
    all.push(item);
  }
  return all;
}
