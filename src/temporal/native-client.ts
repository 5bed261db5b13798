/**
 * The connection of worker processes. Separate from client.ts, which the API loads without the worker's native
 * library.
 */
import { Client } from "@temporalio/client";
import type { DataConverter } from "@temporalio/common";
import { NativeConnection } from "@temporalio/worker";
import { useSynchronousContext } from "./call-context.ts";
import type { TemporalOptions } from "./client.ts";

/** Opens the connection that a process shares between its workers and its client, as eager starts require. */
export async function connectNative({
  address,
  tls,
  apiKey,
  metadata,
  compression,
  patched,
}: Omit<TemporalOptions, "namespace">): Promise<NativeConnection> {
  const connection = await NativeConnection.connect({
    address,
    tls,
    metadata,
    ...(apiKey === undefined ? {} : { apiKey: apiKey() }),
    grpcCompression: { codec: compression },
  });
  if (patched) {
    useSynchronousContext(connection.callContextStorage);
  }
  return connection;
}

export function createNativeClient(
  connection: NativeConnection,
  namespace: string,
  dataConverter: DataConverter = {},
): Client {
  return new Client({ connection, namespace, dataConverter });
}
