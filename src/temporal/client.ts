/** Connections to Temporal's frontend. */
import { Client, Connection } from "@temporalio/client";
import { useSynchronousContext } from "./call-context.ts";

const CHECK_TIMEOUT_MS = 2_000;

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
  const connection = Connection.lazy({ address });
  useSynchronousContext(connection.callContextStorage);
  return new Client({ connection, namespace });
}

/** Rejects when Temporal cannot be reached or does not know the namespace. */
export async function checkNamespace(client: Client): Promise<void> {
  const { namespace } = client.options;
  await client.withDeadline(
    Date.now() + CHECK_TIMEOUT_MS,
    async () => await client.workflowService.describeNamespace({ namespace }),
  );
}
