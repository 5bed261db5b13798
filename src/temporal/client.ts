/** Connections to Temporal's frontend. */
import { Client, Connection } from "@temporalio/client";
import { NativeConnection } from "@temporalio/worker";

export interface TemporalOptions {
  /** host:port */
  readonly address: string;
  readonly namespace: string;
}

/**
 * A client for processes without a worker. Connects when first used and again after an outage, so that the api can
 * start and accept events while Temporal is down.
 */
export function createLazyClient({ address, namespace }: TemporalOptions): Client {
  return new Client({ connection: Connection.lazy({ address }), namespace });
}

/** The connection that a worker process shares between its workers and its client: eager starts need that. */
export async function connectNative({
  address,
}: Pick<TemporalOptions, "address">): Promise<NativeConnection> {
  return await NativeConnection.connect({ address });
}

export function createNativeClient(connection: NativeConnection, namespace: string): Client {
  return new Client({ connection, namespace });
}
