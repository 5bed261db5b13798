/** Connections to Temporal's frontend. */
import {
  Client,
  Connection,
  type ConnectionOptions,
  defaultGrpcRetryOptions,
  makeGrpcRetryInterceptor,
} from "@temporalio/client";
import type { PayloadCodec } from "@temporalio/common";
import { type TemporalTls, temporalTls, type TemporalTlsValues } from "../config/temporal-tls.ts";
import { useSynchronousContext } from "./call-context.ts";
import { dataConverterOf } from "./codec.ts";

const CHECK_TIMEOUT_MS = 2_000;
/** Temporal's frontend hangs up on whoever asks more often. A dead connection is replaced after 15 s. */
const KEEP_ALIVE = { "grpc.keepalive_time_ms": 10_000, "grpc.keepalive_timeout_ms": 5_000 };

/** A call, with all its repetitions, that says nothing of its own: the SDK would wait for its answer for ever. */
const CALL_TIMEOUT_MS = 10_000;

type Interceptor = NonNullable<ConnectionOptions["interceptors"]>[number];

const retried = makeGrpcRetryInterceptor(defaultGrpcRetryOptions());

const bounded: Interceptor = (options, nextCall) =>
  retried({ ...options, deadline: options.deadline ?? Date.now() + CALL_TIMEOUT_MS }, nextCall);

export interface TemporalOptions {
  /** host:port */
  readonly address: string;
  readonly namespace: string;
  readonly tls: TemporalTls;
}

/** The options of a connection as the settings say them. */
export function temporalOptions(
  config: TemporalTlsValues & { readonly temporalAddress: string; readonly temporalNamespace: string },
): TemporalOptions {
  return {
    address: config.temporalAddress,
    namespace: config.temporalNamespace,
    tls: temporalTls(config),
  };
}

/**
 * A client for processes without a worker. Connects when first used and again after an outage, so that the api can
 * start and accept events while Temporal is down.
 */
export function createLazyClient({ address, namespace, tls }: TemporalOptions, codec?: PayloadCodec): Client {
  const connection = Connection.lazy({
    address,
    tls,
    channelArgs: KEEP_ALIVE,
    interceptors: [bounded],
  });
  useSynchronousContext(connection.callContextStorage);
  return new Client({ connection, namespace, ...dataConverterOf(codec) });
}

/** Rejects when Temporal cannot be reached or does not know the namespace. */
export async function checkNamespace(client: Client): Promise<void> {
  const { namespace } = client.options;
  await client.withDeadline(
    Date.now() + CHECK_TIMEOUT_MS,
    async () => await client.workflowService.describeNamespace({ namespace }),
  );
}
