/** The edge process: checks tokens and scopes before a request reaches the data plane or the api. */
import type { Server } from "node:http";
import { HTTP_TIMEOUTS } from "#http/server.ts";
import type { SignetServer } from "#http/types.ts";
import {
  type Config,
  ConfigError,
  type Environment,
  formatListen,
  type ListenAddress,
} from "#config/config.ts";
import { cellsOf } from "#config/cell-settings.ts";
import { directUrl, poolAccess } from "#config/database-settings.ts";
import { createRandomPool } from "#crypto/random-pool.ts";
import { requireUsableDatabase } from "#database/access.ts";
import { openProcessClock } from "#database/database-clock.ts";
import { EDGE_ROLE, rolesBeyondEdge } from "#database/edge-login.ts";
import { createPool, type Pool } from "#database/pool.ts";
import { databaseReadiness } from "#database/readiness.ts";
import type { Clock } from "#domain/clock.ts";
import { machineTimers } from "#runtime/machine-timers.ts";
import { Admitted } from "#edge/admitted.ts";
import { ApiConnections } from "#edge/api-connections.ts";
import { isApiTarget } from "#edge/api-routes.ts";
import { Dispatchers } from "#edge/dispatchers.ts";
import { createGateway, type GatewayServices, targetsOf } from "#edge/gateway.ts";
import { RouteFile } from "#edge/route-file.ts";
import { type RouteTable, RouteTableError } from "#edge/route-table.ts";
import { listenOn } from "#runtime/http-server.ts";
import { closeServer, createPlainServer, type ListenerHandler } from "#http/mutual-tls/tls-listener.ts";
import { clockReadiness, clockSkewJob } from "#observability/clock-skew.ts";
import type { Logger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import type { ReadinessCheck } from "#runtime/readiness.ts";
import { createTokenVerifier } from "#tokens/oauth/verify-access-token.ts";
import { StaleReport } from "#revocation/stale-report.ts";
import { createTokenAdmission } from "#tokens/oauth/token-admission.ts";
import { Upkeep } from "#runtime/upkeep.ts";
import { apiFiles, openFiles } from "./certificate-files.ts";
import { type BehindEdge, MutualTls } from "./mutual-tls.ts";
import { followHubs, type HubKnowledge } from "./hub-knowledge.ts";
import { followRevocations } from "./revocation.ts";
import { followKeys, requireVerificationKeys } from "./signing-keys.ts";
import type { KeyStore } from "#tokens/signing-keys/key-store.ts";
import type { RunningProcess } from "./with-metrics.ts";

/** Longer than clients and balancers keep idle connections, so that they close first. */
const KEEP_ALIVE_MS = 72_000;
/** Margin of a connection's idle timeout over the timeouts of its requests. */
const IDLE_MARGIN_MS = 5_000;
const DATABASE_CONNECTIONS = 2;
/** Connections to the api; each open stream holds one. */
const API_CONNECTIONS_MAX = 2_048;

export interface EdgeProcessOptions {
  readonly config: Config;
  /** For keys that the route table names by environment variable. */
  readonly environment: Environment;
  readonly log: Logger;
  /** Replaces the database's clock in tests. */
  readonly clock?: Clock;
  /** The api, if it is in this process. Otherwise SIGNET_EDGE_API_URL leads to it. */
  readonly behind?: BehindEdge | undefined;
}

export interface EdgeProcess extends RunningProcess {
  readonly address: ListenAddress;
  /** Reads the route table again. */
  readonly reload: () => Promise<void>;
}

function limitsOf(config: Config): GatewayServices["limits"] {
  return {
    connectTimeoutMs: config.edgeConnectTimeoutMs,
    headersTimeoutMs: config.edgeHeadersTimeoutMs,
    idleTimeoutMs: config.edgeIdleTimeoutMs,
    bodyLimit: config.edgeBodyLimit,
  };
}

function settingsOf(
  config: Config,
): Pick<GatewayServices, "checks" | "baseUrl" | "bindingRequired" | "limits" | "cells" | "timers"> {
  return {
    timers: machineTimers,
    checks: config.edgeChecks,
    baseUrl: config.publicUrl,
    bindingRequired: !config.development,
    limits: limitsOf(config),
    cells: cellsOf(config),
  };
}

/** Serves every connection: looks up the newest table's server at each request. */
function handlerOf(config: Config, current: () => SignetServer): ListenerHandler {
  const { edgeRequestTimeoutMs, edgeHeadersTimeoutMs, edgeIdleTimeoutMs } = config;
  return {
    request: (request, response) => current().routing(request, response),
    clientError: (error, socket) => void current().server.emit("clientError", error, socket),
    timeouts: {
      ...HTTP_TIMEOUTS,
      requestTimeout: edgeRequestTimeoutMs,
      requireHostHeader: false,
      keepAliveTimeout: KEEP_ALIVE_MS,
    },
    idleTimeoutMs: Math.max(edgeHeadersTimeoutMs, edgeIdleTimeoutMs) + IDLE_MARGIN_MS,
  };
}

async function openApi(config: Config, log: Logger): Promise<ApiConnections | undefined> {
  const { edgeApiUrl, edgeApiNames: names = [] } = config;
  if (edgeApiUrl === undefined) {
    return undefined;
  }
  const files = apiFiles(config);
  return new ApiConnections({
    origin: new URL(edgeApiUrl).origin,
    target: { ...limitsOf(config), connections: API_CONNECTIONS_MAX },
    files: files && (await openFiles(files, log)),
    names,
    timers: machineTimers,
  });
}

async function openRoutes(
  { config, environment, log }: EdgeProcessOptions,
  onChange: (table: RouteTable) => Promise<void>,
): Promise<RouteFile | undefined> {
  const { edgeRoutes: path, edgeChecks } = config;
  const options = { environment: (name: string) => environment[name], checksOnly: edgeChecks !== "off", log };
  try {
    return path === undefined ? undefined : await RouteFile.open({ path, ...options }, onChange);
  } catch (error) {
    const problems = error instanceof RouteTableError ? error.problems : [(error as Error).message];
    throw new ConfigError(problems.map((problem) => `SIGNET_EDGE_ROUTES: ${problem}`));
  }
}

function routesReadiness(routes: () => RouteFile | undefined): ReadinessCheck {
  return {
    name: "routes",
    check: async () => {},
    get note() {
      const { table = [], problems = [] } = routes() ?? {};
      return { count: table.length, ...(problems.length === 0 ? {} : { refused: problems }) };
    },
  };
}

/** Gives the api in this process its own paths, with the connection itself: it knows the client as without an edge. */
function inFrontOf(behind: BehindEdge | undefined, edge: ListenerHandler): ListenerHandler {
  if (behind === undefined) {
    return edge;
  }
  return {
    ...edge,
    request: (request, response) => {
      const { handler } = isApiTarget(request.url ?? "") ? behind : { handler: edge };
      handler.request(request, response);
    },
  };
}

/** Edges face the internet: production rejects a login that bypasses row-level security, and warns of one with excess rights. */
async function checkPowers(pool: Pool, config: WithDatabase, log: Logger) {
  const { development, databaseUrl } = config;
  await requireUsableDatabase(pool, config, config);
  const logins = new Set(
    [databaseUrl, directUrl(config)].map((url) => decodeURIComponent(new URL(url).username)),
  );
  for (const login of development ? [] : logins) {
    const roles = await rolesBeyondEdge(pool, login);
    if (roles.length > 0) {
      log.warn({ roles }, "the edge's database login may act as other roles: set SIGNET_EDGE_DATABASE_URL");
    }
  }
}

type WithDatabase = Config & { readonly databaseUrl: string };

/** What an edge knows: from PostgreSQL, or through hubs. */
interface Knowledge extends Pick<HubKnowledge, "clock" | "revocation"> {
  readonly keys: KeyStore;
  readonly readiness: readonly ReadinessCheck[];
  close(): Promise<void>;
}

async function openDatabase(
  config: WithDatabase,
  { clock: given, log, behind }: Pick<EdgeProcessOptions, "clock" | "log" | "behind">,
): Promise<Knowledge> {
  const pool = createPool({ ...poolAccess(config), role: EDGE_ROLE, max: DATABASE_CONNECTIONS, log });
  if (behind === undefined) {
    await checkPowers(pool, config, log);
  }
  const clock = await openProcessClock(given, pool, machineTimers);
  const keys = await followKeys(config, { db: pool, clock, timers: machineTimers, log });
  const revocation = await followRevocations({ process: "edge", config, time: clock, log });
  return {
    clock,
    keys,
    revocation,
    // An edge writes only its own lease.
    readiness: [databaseReadiness({ pools: [pool], writes: false, timers: machineTimers })],
    close: async () => {
      await Promise.all([keys.close(), revocation.close()]);
      await pool.end();
    },
  };
}

async function openKnowledge({ config, clock: given, log, behind }: EdgeProcessOptions): Promise<Knowledge> {
  const { hubs, leaseKeys, databaseUrl } = config;
  if (hubs !== undefined && leaseKeys !== undefined) {
    const knowledge = await followHubs({ ...config, hubs, leaseKeys }, { given, log });
    const { keys, revocation } = knowledge;
    return {
      ...knowledge,
      readiness: [],
      close: async () => {
        await Promise.all([keys.close(), revocation.close()]);
      },
    };
  }
  if (databaseUrl === undefined) {
    throw new ConfigError(["SIGNET_DATABASE_URL or SIGNET_HUBS must be set"]);
  }
  return await openDatabase(
    { ...config, databaseUrl },
    { ...(given === undefined ? {} : { clock: given }), log, behind },
  );
}

/** Starts the edge process. Resolves when it listens. */
export async function startEdge(options: EdgeProcessOptions): Promise<EdgeProcess> {
  const { config, log, behind } = options;
  const knowledge = await openKnowledge(options);
  const { clock, keys, revocation } = knowledge;
  const mutualTls =
    behind?.mutualTls ?? (await MutualTls.open({ config, clock, log, isDenied: revocation.isDenied }));
  const api = behind === undefined ? await openApi(config, log) : undefined;
  const dispatchers = new Dispatchers(machineTimers);
  const { view } = revocation.follower;
  const admitted = new Admitted((token) => view.verdict(token) === "revoked", machineTimers);
  const randomBytes = createRandomPool();
  let routes: RouteFile | undefined;
  let gateway: SignetServer | undefined;

  const readiness: readonly ReadinessCheck[] = [
    ...knowledge.readiness,
    { name: "keys", check: async () => await requireVerificationKeys(keys) },
    ...revocation.readiness,
    clockReadiness(clock),
    ...mutualTls.readiness,
    ...(api?.readiness ?? []),
    routesReadiness(() => routes),
  ];
  const { publicUrl: issuer, audience } = config;
  const verify = createTokenVerifier({ issuer, audience, keys, clock });
  const services: GatewayServices = {
    ...settingsOf(config),
    clients: mutualTls.clients,
    admit: createTokenAdmission(verify, revocation.follower, new StaleReport({ clock, log })),
    admitted,
    dispatchers,
    api,
    readiness,
    clock,
    admissionInstant: config.testAdmissionHeader === "on" ? () => process.hrtime.bigint() : undefined,
    randomBytes,
    log,
  };
  const use = async (table: RouteTable): Promise<void> => {
    gateway = await createGateway(table, services);
    dispatchers.retain(targetsOf(table, services));
    metrics.edgeRoutes.set(table.length);
  };
  routes = await openRoutes(options, use);
  await use(routes?.table ?? []);

  const handler = inFrontOf(
    behind,
    handlerOf(config, () => gateway as SignetServer),
  );
  let plain: Server | undefined;
  let address = await mutualTls.listen(handler);
  if (address === undefined) {
    plain = createPlainServer(handler);
    address = await listenOn(plain, config.edgeListen);
  }
  log.info({ edge: formatListen(address), routes: routes?.table.length ?? 0 }, "edge started");
  const measures = new Upkeep([clockSkewJob(clock, log)], machineTimers, log);
  return {
    address,
    readiness,
    reload: async () => void (await routes?.reload()),
    close: async () => {
      routes?.close();
      await measures.stop();
      await Promise.all([mutualTls.close(), plain && closeServer(plain, machineTimers)]);
      admitted.close();
      await Promise.all([dispatchers.close(), api?.close(), knowledge.close()]);
    },
  };
}
