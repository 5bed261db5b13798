/** Configuration of a single-node Temporal on PostgreSQL, based on its development-postgres12.yaml. */
import { stringify } from "yaml";
import { HISTORY_SHARDS } from "./shipped.ts";

/** The pgx plugin costs a third less CPU in PostgreSQL than `postgres12`. */
export const PLUGIN = "postgres12_pgx";
const STORE_CONNECTIONS = 20;
const VISIBILITY_CONNECTIONS = 10;

export interface TemporalPorts {
  readonly frontend: number;
  readonly frontendHttp: number;
  readonly history: number;
  readonly matching: number;
  readonly worker: number;
  /** Membership ports of the four services, in that order. */
  readonly membership: readonly [number, number, number, number];
}

export interface TemporalConfigOptions {
  readonly ports: TemporalPorts;
  readonly postgres: {
    readonly host: string;
    readonly port: number;
    readonly user: string;
    readonly password: string;
  };
  readonly databases: { readonly store: string; readonly visibility: string };
  readonly dynamicConfig: string;
}

function store(
  { postgres }: TemporalConfigOptions,
  databaseName: string,
  connections: number,
): Readonly<Record<string, unknown>> {
  return {
    sql: {
      pluginName: PLUGIN,
      databaseName,
      connectAddr: `${postgres.host}:${postgres.port}`,
      connectProtocol: "tcp",
      user: postgres.user,
      password: postgres.password,
      maxConns: connections,
      maxIdleConns: connections,
      maxConnLifetime: "1h",
    },
  };
}

function service(grpcPort: number, membershipPort: number, httpPort?: number): unknown {
  const rpc = { grpcPort, membershipPort, bindOnLocalHost: true };
  return { rpc: httpPort === undefined ? rpc : { ...rpc, httpPort } };
}

/** Returns the server's configuration as YAML. */
export function temporalConfig(options: TemporalConfigOptions): string {
  const { ports, databases, dynamicConfig } = options;
  const [frontend, history, matching, worker] = ports.membership;
  return stringify({
    log: { stdout: true, level: "warn" },
    persistence: {
      defaultStore: "store",
      visibilityStore: "visibility",
      numHistoryShards: HISTORY_SHARDS,
      datastores: {
        store: store(options, databases.store, STORE_CONNECTIONS),
        visibility: store(options, databases.visibility, VISIBILITY_CONNECTIONS),
      },
    },
    global: { membership: { maxJoinDuration: "30s", broadcastAddress: "127.0.0.1" } },
    services: {
      frontend: service(ports.frontend, frontend, ports.frontendHttp),
      history: service(ports.history, history),
      matching: service(ports.matching, matching),
      worker: service(ports.worker, worker),
    },
    clusterMetadata: {
      enableGlobalNamespace: false,
      failoverVersionIncrement: 10,
      masterClusterName: "active",
      currentClusterName: "active",
      clusterInformation: {
        active: {
          enabled: true,
          initialFailoverVersion: 1,
          rpcName: "frontend",
          rpcAddress: `127.0.0.1:${ports.frontend}`,
        },
      },
    },
    dcRedirectionPolicy: { policy: "noop" },
    archival: { history: { state: "disabled" }, visibility: { state: "disabled" } },
    dynamicConfigClient: { filepath: dynamicConfig, pollInterval: "60s" },
  });
}
