/** `signet serve`, the command of `npm start`: every process in one, on embedded PostgreSQL and Temporal, after a demo. */
import { randomBytes } from "node:crypto";
import { rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { createAdminCall } from "../cli/admin-client.ts";
import { type Config, formatListen, processEnvironment, SETTINGS } from "../config/config.ts";
import { readOrCreateKey } from "../crypto/development-keys.ts";
import { loadOperatorToken } from "../crypto/service-secrets.ts";
import { curlLines } from "./demo/curl-lines.ts";
import type { MutualTlsAccess } from "./demo/edge-demo.ts";
import { type DemoResult, runDemo } from "./demo/demo.ts";
import { startDemoReceiver } from "./demo/demo-receiver.ts";
import type { EdgeAccess } from "./demo/edge-demo.ts";
import { systemClock } from "../domain/clock.ts";
import { DATABASE_PASSWORD_FILE, EMBEDDED_LOGIN } from "./embedded/addresses.ts";
import { lockHome } from "./embedded/lock.ts";
import { requireFreePort } from "./embedded/ports.ts";
import { startUpError } from "./embedded/start-up-error.ts";
import { startEmbeddedPostgres } from "./embedded/postgres.ts";
import { resolveTemporalBinary } from "./embedded/temporal-binary.ts";
import { startEmbeddedTemporal } from "./embedded/temporal.ts";
import { createLogger, fileDestination, type Logger } from "../observability/logger.ts";
import { startMetricsServer } from "../observability/metrics-server.ts";
import { exportMetrics } from "../observability/process-metrics.ts";
import { messageOf } from "../runtime/thrown.ts";
import { VERSION } from "../runtime/version.ts";
import { within } from "../runtime/within.ts";
import { createLazyClient, temporalOptions } from "../temporal/client.ts";
import { startApi } from "./api.ts";
import { DEMO_SPIFFE_ID, openDevelopmentCertificates } from "./development-certificates.ts";
import { prepareEdgeLink, startEmbeddedEdge } from "./embedded-edge.ts";
import { runMigrate } from "./migrate.ts";
import { openTracing, type RunningProcess } from "./with-metrics.ts";
import { startWorker } from "./worker.ts";

type Closer = () => Promise<void>;

type ReadyConfig = Config & { readonly databaseUrl: string; readonly temporalAddress: string };

export interface ServeProcess extends RunningProcess {
  readonly failed: Promise<never>;
}

/** Time to finish work in progress; the embedded servers stop in the rest of the process's 18 s. */
const GRACE_MS = 12_000;

/** Things to close, last opened first. */
class Closers {
  readonly #closers: { readonly close: Closer; readonly always: boolean }[] = [];

  /** @param always closed and awaited even after the grace period */
  add(close: Closer, always = false): void {
    this.#closers.push({ close, always });
  }

  /** @throws the first failure, after closing everything has begun */
  async close(): Promise<void> {
    const deadline = performance.now() + GRACE_MS;
    const failures: unknown[] = [];
    for (let closer = this.#closers.pop(); closer !== undefined; closer = this.#closers.pop()) {
      const { close, always } = closer;
      const closed = close();
      await (always ? closed : within(Math.max(1, deadline - performance.now()), closed)).catch(
        (error: unknown) => failures.push(error),
      );
    }
    if (failures.length > 0) {
      throw failures[0];
    }
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

async function checkPorts(config: Config): Promise<void> {
  const { apiListen, adminListen, edgeListen, metricsListen } = SETTINGS;
  await requireFreePort({ what: "the API", ...config.apiListen, setting: apiListen.variable });
  await requireFreePort({ what: "the operators' API", ...config.adminListen, setting: adminListen.variable });
  if (config.mtlsMode !== "off" || config.development) {
    await requireFreePort({ what: "the edge", ...config.edgeListen, setting: edgeListen.variable });
  }
  await requireFreePort({ what: "metrics", ...config.metricsListen, setting: metricsListen.variable });
}

async function openPostgres(
  config: Config,
  closers: Closers,
  signal: AbortSignal,
): Promise<Config & { readonly databaseUrl: string }> {
  if (config.databaseUrl !== undefined) {
    return { ...config, databaseUrl: config.databaseUrl };
  }
  const { home, embeddedDatabasePort: port } = config;
  const postgres = await startEmbeddedPostgres({ home, port, log: say, signal });
  closers.add(async () => await postgres.stop(), true);
  const url = new URL(postgres.url);
  url.username = EMBEDDED_LOGIN;
  url.password = await readOrCreateKey(home, DATABASE_PASSWORD_FILE, randomBytes);
  say(`   PostgreSQL  127.0.0.1:${port}, data in ${postgres.data}`);
  return { ...config, databaseUrl: url.href, databaseAdminUrl: postgres.url };
}

/** Links the CLI under a fixed path for the documentation. */
async function linkTemporalCli(program: string, home: string): Promise<string> {
  const link = join(home, "temporal");
  await rm(link, { force: true });
  await symlink(program, link);
  return link;
}

async function openTemporal(config: Config, closers: Closers, signal: AbortSignal): Promise<string> {
  if (config.temporalAddress !== undefined) {
    return config.temporalAddress;
  }
  const { home, cache: cacheDir, embeddedTemporalPort: port, embeddedTemporalUiPort: uiPort } = config;
  const binary = await resolveTemporalBinary({
    environment: processEnvironment(),
    cacheDir,
    log: say,
    signal,
  });
  const temporal = await startEmbeddedTemporal({
    binary: binary.path,
    home,
    port,
    uiPort,
    namespaces: [config.temporalNamespace],
    dbFilename: join(home, "temporal.db"),
    log: say,
    signal,
  });
  closers.add(async () => await temporal.stop(), true);
  const cli = await linkTemporalCli(binary.path, home);
  say(`   Temporal    ${temporal.address}, UI http://127.0.0.1:${uiPort}, CLI ${cli}`);
  return temporal.address;
}

/** Starts both concurrently. If one fails, waits for the other, so that it can be stopped. */
async function openServers(config: Config, closers: Closers, stopping: AbortSignal): Promise<ReadyConfig> {
  const other = new AbortController();
  const signal = AbortSignal.any([stopping, other.signal]);
  const opening = [openPostgres(config, closers, signal), openTemporal(config, closers, signal)] as const;
  try {
    const [withDatabase, temporalAddress] = await Promise.all(opening);
    const embeddedUi =
      config.temporalAddress === undefined ? `http://127.0.0.1:${config.embeddedTemporalUiPort}` : undefined;
    return { ...withDatabase, temporalAddress, temporalUiUrl: config.temporalUiUrl ?? embeddedUi };
  } catch (error) {
    other.abort();
    await Promise.allSettled(opening);
    throw error;
  }
}

function adminScheme({ adminTlsKeyFile }: Config): "http" | "https" {
  return adminTlsKeyFile === undefined ? "http" : "https";
}

/** Whether the demo can run: it creates its tenant as the bootstrap operator, without a certificate. */
function canDemonstrate(config: Config): boolean {
  return config.demo === "on" && config.bootstrapOperator === "on" && adminScheme(config) === "http";
}

/** Returns how the demo reaches the sample data plane; undefined with other routes or certificates. */
function edgeAccess(config: ReadyConfig, mutualTls: MutualTlsAccess | undefined): EdgeAccess | undefined {
  if (!config.development || config.edgeRoutes !== undefined) {
    return undefined;
  }
  if (config.mtlsMode === "off") {
    return { baseUrl: `http://${formatListen(config.edgeListen)}` };
  }
  return mutualTls === undefined ? undefined : { baseUrl: mutualTls.baseUrl, mutualTls };
}

async function demonstrate(
  config: ReadyConfig,
  closers: Closers,
  edge: EdgeAccess | undefined,
): Promise<DemoResult> {
  const receiver = await startDemoReceiver(() => systemClock.now());
  closers.add(async () => await receiver.close());
  const temporal = createLazyClient(temporalOptions(config));
  const operatorToken = await loadOperatorToken(config, randomBytes);
  const admin = createAdminCall({
    settings: () => ({ ...config, operatorToken, production: !config.development }),
    stdout: say,
    stderr: say,
    fetch,
  });
  say("");
  say("The main job:");
  try {
    return await runDemo({
      baseUrl: `http://${formatListen(config.apiListen)}`,
      home: config.home,
      admin,
      temporal,
      receiver,
      sanUri: DEMO_SPIFFE_ID,
      edge,
      clock: systemClock,
      say,
    });
  } finally {
    await temporal.connection.close();
  }
}

function printAddresses(
  config: ReadyConfig,
  demo: DemoResult | undefined,
  mutualTls: MutualTlsAccess | undefined,
): void {
  const baseUrl = `http://${formatListen(config.apiListen)}`;
  say("");
  say(`   API         ${baseUrl} (OpenAPI: ${baseUrl}/openapi.json)`);
  if (config.mtlsMode !== "off") {
    say(
      `   Edge        https://${formatListen(config.edgeListen)}, mutual TLS with the CA in ${config.clientCaFile}`,
    );
  } else if (config.development) {
    say(`   Edge        http://${formatListen(config.edgeListen)}`);
  }
  say(
    `   Operators   ${adminScheme(config)}://${formatListen(config.adminListen)}, token in ${join(config.home, "operator-token")}`,
  );
  if (demo?.portalLink !== undefined) {
    say(
      `   Portal      ${demo.portalLink} (signs in once, within 15 minutes; \`npx signet portal\` creates others)`,
    );
  }
  say(`   Metrics     http://${formatListen(config.metricsListen)}/metrics`);
  say(`   Log         ${join(config.home, "signet.log")}`);
  if (demo !== undefined) {
    say("");
    say("Next, each in a separate terminal, in this directory:");
    say("   npx signet listen                       a receiver that verifies; leave it running");
    say("   npx signet trigger inference.completed  publishes an event to it");
    say("   npx signet delivery list                shows its delivery");
    say("");
    say("Try it with curl, in another terminal:");
    for (const line of curlLines({ baseUrl, mutualTls, demo })) {
      say(`  ${line}`);
    }
  }
  say("");
}

/** Resolves or rejects like `work`, or rejects at once when the process stops; `work` then ends by itself. */
async function unlessStopped<T>(stopping: AbortSignal, work: Promise<T>): Promise<T> {
  return await new Promise((resolve, reject) => {
    stopping.addEventListener("abort", () => reject(stopping.reason as Error), { once: true });
    work.then(resolve, reject);
  });
}

async function open(
  config: Config,
  log: Logger,
  { closers, stopping }: { readonly closers: Closers; readonly stopping: AbortSignal },
): Promise<ServeProcess> {
  const lock = await lockHome(config.home);
  closers.add(async () => await lock.release(), true);
  await checkPorts(config);
  const ready = await openServers(config, closers, stopping);
  stopping.throwIfAborted();
  await runMigrate(ready, log);
  stopping.throwIfAborted();
  const mutualTls = await openDevelopmentCertificates(ready, systemClock.now());
  const link = await prepareEdgeLink(ready, systemClock.now());
  const endTraces = await openTracing("serve", config);
  closers.add(endTraces);
  const api = await startApi({ config: link?.config ?? ready, log, mutualTlsListen: link?.mutualTlsListen });
  closers.add(async () => await api.close());
  stopping.throwIfAborted();
  const edge = link && (await startEmbeddedEdge({ config: ready, link, api, log }));
  closers.add(async () => await edge?.close());
  const worker = await startWorker({ config: ready, log, stopping });
  closers.add(async () => await worker.close());
  const known = [...api.readiness, ...worker.readiness];
  // The edge has the same checks, plus its routes.
  const readiness = [
    ...known,
    ...(edge?.readiness ?? []).filter(({ name }) => known.every((check) => check.name !== name)),
  ];
  exportMetrics(["api", "worker", ...(edge === undefined ? [] : ["edge" as const])], VERSION);
  const metrics = await startMetricsServer({
    listen: config.metricsListen,
    readiness: () => readiness,
    log,
  });
  closers.add(async () => await metrics.close());
  stopping.throwIfAborted();
  const demo = canDemonstrate(config)
    ? await unlessStopped(stopping, demonstrate(ready, closers, edgeAccess(ready, mutualTls)))
    : undefined;
  stopping.throwIfAborted();
  printAddresses(ready, demo, mutualTls);
  say("signet ready");
  return { readiness, failed: worker.failed, close: async () => await closers.close() };
}

/** @throws SignetError `UNAVAILABLE`, one line, if the directory is not writable */
function openLog({ home, logLevel }: Config): Logger {
  try {
    return createLogger({ level: logLevel, destination: fileDestination(join(home, "signet.log")) });
  } catch (error) {
    throw startUpError(
      `${home} is not writable (${messageOf(error)}): fix its permissions, or set SIGNET_HOME to another directory`,
      error,
    );
  }
}

/**
 * Starts everything and resolves when the demo has passed; on failure, stops everything started.
 *
 * @param stopping aborts the start between two steps, as a failure
 */
export async function startServe(config: Config, stopping: AbortSignal): Promise<ServeProcess> {
  const log = openLog(config);
  const closers = new Closers();
  say("Signet");
  try {
    return await open(config, log, { closers, stopping });
  } catch (error) {
    await closers.close();
    throw error;
  }
}
