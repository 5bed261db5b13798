/** What the client library reads while it comes. */
import type { Delivery } from "../../src/lib/client/resources/delivery-types.ts";

/** The first delivery that the stream tells to be over. */
export async function untilDelivered(stream: AsyncIterable<Delivery>): Promise<Delivery | undefined> {
  for await (const delivery of stream) {
    if (delivery.state === "DELIVERED") {
      return delivery;
    }
  }
  return undefined;
}

/** All of it. */
export async function collected<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) {
    all.push(item);
  }
  return all;
}
