/** Connections to Temporal's frontend. */
import {
  Client,
  Connection,
  type ConnectionOptions,
  defaultGrpcRetryOptions,
  makeGrpcRetryInterceptor,
} from "@temporalio/client";
import type { DataConverter } from "@temporalio/common";
import type { Logger } from "pino";
import type { TemporalConnection } from "#config/temporal-settings.ts";
import type { Config } from "#config/config.ts";
import { useSynchronousContext } from "./call-context.ts";
import { createDataConverter, type PayloadKeys } from "./codec.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import { ReplacedConnection } from "./replaced-connection.ts";
import { messageOf } from "#runtime/thrown.ts";
import { isPatched } from "./sdk-patches.ts";
import type { Timers } from "#domain/clock.ts";

/** Limit of a question that somebody waits for. */
export const CHECK_TIMEOUT_MS = 2_000;
/** A page waits no longer for what it can do without. */
const PAGE_TIMEOUT_MS = 1_000;
/** Temporal's frontend disconnects clients with more frequent pings. A dead connection is replaced after 15 s. */
const KEEP_ALIVE = { "grpc.keepalive_time_ms": 10_000, "grpc.keepalive_timeout_ms": 5_000 };
/** By default, waits between attempts to connect grow to two minutes. The API may start minutes before Temporal. */
const RECONNECT = { "grpc.max_reconnect_backoff_ms": 5_000 };
/** Otherwise a new connection would share the socket of one that has died. */
const OWN_SOCKET = { "grpc.use_local_subchannel_pool": 1 };

/** Limit for a call with all its retries, unless the call sets one. By default, the SDK waits forever. */
const CALL_TIMEOUT_MS = 10_000;
/** A retry that waits when its call's time is over begins at most 12 s later (the SDK's longest pause and its jitter). */
const CALLS_LAST_MS = CALL_TIMEOUT_MS + 20_000;

type Interceptor = NonNullable<ConnectionOptions["interceptors"]>[number];

const retried = makeGrpcRetryInterceptor(defaultGrpcRetryOptions());

type NextCall = Parameters<Interceptor>[1];
/** google.rpc.Code */
const CANCELLED = 1;

/** A call over a connection that is closed. It ends at once, as cancelled: the SDK does not repeat it. */
function endedCall(error: unknown): ReturnType<NextCall> {
  return {
    cancelWithStatus: () => undefined,
    getPeer: () => "",
    start: (metadata, listener) => {
      listener?.onReceiveMessage?.(null);
      const status = { code: CANCELLED, details: messageOf(error), metadata };
      // oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- the enum is of a package of the SDK
      listener?.onReceiveStatus?.(status);
    },
    sendMessage: () => undefined,
    sendMessageWithContext: () => undefined,
    startRead: () => undefined,
    halfClose: () => undefined,
    getAuthContext: () => null,
  };
}

/** The SDK repeats a call from a timer. On a closed connection gRPC throws there, which would end the process. */
function guarded(nextCall: NextCall): NextCall {
  return (options) => {
    try {
      return nextCall(options);
    } catch (error) {
      return endedCall(error);
    }
  };
}

/** Returns the deadline of a call, in Unix milliseconds of this machine: gRPC knows no other clock. */
export function callDeadline(timeoutMs: number): number {
  return Date.now() + timeoutMs;
}

const bounded: Interceptor = (options, nextCall) =>
  retried({ ...options, deadline: options.deadline ?? callDeadline(CALL_TIMEOUT_MS) }, guarded(nextCall));

export interface TemporalOptions extends TemporalConnection {
  /** host:port */
  readonly address: string;
  readonly namespace: string;
  /** Compression of the calls of workers. */
  readonly compression: "none" | "gzip";
  /** Whether to patch the SDK. */
  readonly patched: boolean;
}

/**
 * Channel options for an address: gRPC sends even connections to this machine through a proxy that the environment
 * names, unless NO_PROXY excludes them.
 */
export function proxyArgs(address: string): Readonly<Record<string, number>> {
  return /^(?:127\.\d+\.\d+\.\d+|localhost|\[::1\]):\d+$/.test(address)
    ? { "grpc.enable_http_proxy": 0 }
    : {};
}

/** Returns the connection options of the settings. */
export function temporalOptions(
  config: Pick<
    Config,
    "temporalNamespace" | "temporalConnection" | "temporalCompression" | "temporalSdkPatches"
  > & {
    readonly temporalAddress: string;
  },
): TemporalOptions {
  return {
    address: config.temporalAddress,
    namespace: config.temporalNamespace,
    compression: config.temporalCompression,
    patched: isPatched(config),
    ...config.temporalConnection,
  };
}

/** Options of a connection by gRPC for Node, which asks for the API key at each call. */
export function connectionOptions({ address, tls, apiKey, metadata }: TemporalOptions): ConnectionOptions {
  return {
    address,
    tls,
    metadata,
    ...(apiKey === undefined ? {} : { apiKey }),
    channelArgs: proxyArgs(address),
  };
}

function connectLazily(options: TemporalOptions): Connection {
  const connection = Connection.lazy({
    ...connectionOptions(options),
    channelArgs: { ...KEEP_ALIVE, ...RECONNECT, ...OWN_SOCKET, ...proxyArgs(options.address) },
    interceptors: [bounded],
  });
  if (options.patched) {
    useSynchronousContext(connection.callContextStorage);
  }
  return connection;
}

function clientOf(
  connection: Connection,
  { namespace }: TemporalOptions,
  dataConverter: DataConverter = {},
): Client {
  return new Client({ connection, namespace, dataConverter });
}

/**
 * Creates a client for processes without a worker. It connects when first used, and again after an outage. So the API
 * can start and accept events while Temporal is down.
 */
export function createLazyClient(options: TemporalOptions, dataConverter: DataConverter = {}): Client {
  return clientOf(connectLazily(options), options, dataConverter);
}

/** Opens such a client for a process that lasts, with the job that replaces its connection if it is silent. */
export function openWatchedClient(
  options: TemporalOptions,
  keys: PayloadKeys,
  timers: Timers,
  log: Logger,
): { readonly client: Client; readonly watch: UpkeepJob } {
  const connect = (): Connection => connectLazily(options);
  const replaced = new ReplacedConnection(connect(), {
    connect: async () => await Promise.resolve(connect()),
    probe: async (connection) => await checkNamespace(clientOf(connection, options)),
    callsLastMs: CALLS_LAST_MS,
    timers,
    log,
  });
  return {
    client: clientOf(replaced.connection, options, createDataConverter(keys)),
    watch: replaced.watch(),
  };
}

async function describeNamespace(client: Client, timeoutMs: number) {
  const { namespace } = client.options;
  return await client.withDeadline(
    callDeadline(timeoutMs),
    async () => await client.workflowService.describeNamespace({ namespace }),
  );
}

/** Rejects if Temporal is unreachable or the namespace does not exist. */
export async function checkNamespace(client: Client, timeoutMs = CHECK_TIMEOUT_MS): Promise<void> {
  await describeNamespace(client, timeoutMs);
}

/** Whether the server has `TemporalReportedProblems`, as from 1.30; false if it does not answer in time. */
export async function reportsProblems(client: Client): Promise<boolean> {
  const described = await describeNamespace(client, PAGE_TIMEOUT_MS).catch(() => undefined);
  return described?.namespaceInfo?.capabilities?.reportedProblemsSearchAttribute === true;
}
