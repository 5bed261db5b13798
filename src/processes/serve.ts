/** `signet serve`, the command of `npm start`: every process in one, on embedded PostgreSQL and Temporal, after a demo. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { painter } from "#cli/colours.ts";
import { createAdminCall } from "#cli/admin-client.ts";
import { lightFetch } from "#cli/light-fetch.ts";
import { type Config, formatListen, SETTINGS, wantsColour } from "#config/config.ts";
import { loadOperatorToken } from "#crypto/service-secrets.ts";
import { curlLines } from "./demo/curl-lines.ts";
import type { MutualTlsAccess } from "./demo/edge-demo.ts";
import {
  type DemoOptions,
  type DemoResult,
  openDemo,
  type OpenDemo,
  portalLink,
  runDemo,
} from "./demo/demo.ts";
import { patientFetch } from "./demo/patient-fetch.ts";
import { inTime } from "./demo/tenant-api.ts";
import { DemoReceiver } from "./demo/demo-receiver.ts";
import type { EdgeAccess } from "./demo/edge-demo.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import { lockHome } from "./embedded/lock.ts";
import { requireFreePort } from "./embedded/ports.ts";
import { startUpError } from "./embedded/start-up-error.ts";
import { createLogger, fileDestination, type Logger } from "#observability/logger.ts";
import { startMetricsServer } from "#observability/metrics-server.ts";
import { exportMetrics } from "#observability/process-metrics.ts";
import { messageOf } from "#runtime/thrown.ts";
import { NPX_SIGNET, VERSION } from "#runtime/package.ts";
import { addChecks, type ReadinessCheck } from "#runtime/readiness.ts";
import { NoAnswerError, unlessAborted, within } from "#runtime/within.ts";
import { createLazyClient, temporalOptions } from "#temporal/client.ts";
import { openViews, temporalUi, type ViewLink, VIEWS, viewUrl } from "#temporal/views.ts";
import { startApi } from "./api.ts";
import { DEMO_SPIFFE_ID, openDevelopmentCertificates } from "./development-certificates.ts";
import { prepareEdgeLink, startEmbeddedEdge } from "./embedded-edge.ts";
import { runMigrate } from "./migrate.ts";
import { Closers } from "./serve/closers.ts";
import { createScreen } from "./serve/screen.ts";
import { shareServers } from "./serve/shared-servers.ts";
import { openServers, type ReadyConfig, type Start } from "./serve/servers.ts";
import { openTracing, type RunningProcess } from "./with-metrics.ts";
import { startWorker } from "./worker.ts";
import { HandOverTo } from "#webhooks/ingest/hand-over.ts";

/** Temporal usually starts within this time once the API answers. */
const TEMPORAL_START_MS = 3_000;

export interface ServeProcess extends RunningProcess {
  readonly failed: Promise<never>;
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

type DemoServices = Pick<Start, "closers" | "screen" | "detail">;

async function prepareDemo(config: ReadyConfig, { screen, detail }: DemoServices): Promise<DemoOptions> {
  const operatorToken = await loadOperatorToken(config, randomBytes);
  const patience = { say: screen.say, wait: delay, monotonicMs: machineTimers.monotonic };
  const calls = patientFetch(inTime(lightFetch), patience);
  return {
    fetch: calls,
    patience,
    baseUrl: `http://${formatListen(config.apiListen)}`,
    home: config.home,
    admin: createAdminCall({
      settings: () => ({ ...config, operatorToken, production: !config.development }),
      stdout: screen.say,
      stderr: screen.say,
      fetch: calls as typeof fetch,
    }),
    sanUri: DEMO_SPIFFE_ID,
    clock: systemClock,
    screen,
    detail,
  };
}

async function demonstrate(
  opened: OpenDemo,
  options: DemoOptions,
  {
    config,
    closers,
    edge,
  }: { readonly config: ReadyConfig; readonly edge: EdgeAccess | undefined } & Pick<Start, "closers">,
): Promise<DemoResult> {
  const receiver = await DemoReceiver.start(() => systemClock.now());
  closers.addWork(async () => await receiver.close());
  const temporal = createLazyClient(temporalOptions(config));
  try {
    return await runDemo(opened, { ...options, temporal, receiver, edge });
  } finally {
    await temporal.connection.close();
  }
}

async function viewsOf(config: ReadyConfig): Promise<readonly ViewLink[]> {
  const client = createLazyClient(temporalOptions(config));
  try {
    return await openViews(temporalUi(config, client), systemClock.now());
  } finally {
    await client.connection.close();
  }
}

/** Prints addresses and commands for a second look. */
function printDetails(
  config: ReadyConfig,
  demo: DemoResult | undefined,
  {
    mutualTls,
    views,
    detail,
  }: {
    readonly mutualTls: MutualTlsAccess | undefined;
    readonly views: readonly ViewLink[];
  } & Pick<Start, "detail">,
): void {
  const baseUrl = `http://${formatListen(config.apiListen)}`;
  const edge = formatListen(config.edgeListen);
  if (config.mtlsMode !== "off") {
    detail(`Edge        https://${edge}, mutual TLS with the CA in ${config.clientCaFile}`);
  } else if (config.development) {
    detail(`Edge        http://${edge}`);
  }
  detail(
    `Operators   ${adminScheme(config)}://${formatListen(config.adminListen)}, token in ${join(config.home, "operator-token")}`,
  );
  detail(`Metrics     http://${formatListen(config.metricsListen)}/metrics`);
  detail(`Log         ${join(config.home, "signet.log")}`);
  if (views.length > 0) {
    detail("In Temporal:");
  }
  for (const { name, url } of views) {
    detail(`  ${name.padEnd(14)}  ${url}`);
  }
  if (demo !== undefined) {
    detail("Try it with curl, in another terminal:");
    for (const line of curlLines({ baseUrl, mutualTls, demo })) {
      detail(line);
    }
  }
}

/** Prints the box that stays at the end of the screen. */
function printEnd(
  config: ReadyConfig,
  demo: DemoResult | undefined,
  { screen }: Pick<Start, "screen">,
): void {
  const baseUrl = `http://${formatListen(config.apiListen)}`;
  const { temporalUiUrl } = config;
  const ui = { uiUrl: temporalUiUrl, namespace: config.temporalNamespace };
  const queue = viewUrl(ui, VIEWS.deadLetters);
  screen.box("signet ready", [
    ...(demo?.portalLink === undefined ? [] : [["Portal", demo.portalLink] as const]),
    ["API", `${baseUrl}/docs`],
    ...(temporalUiUrl === undefined ? [] : [["Temporal UI", temporalUiUrl] as const]),
    ...(queue === undefined ? [] : [["Dead letters", queue] as const]),
    ["Receive", `${NPX_SIGNET} listen`],
    ["Publish", `${NPX_SIGNET} trigger inference.completed`],
  ]);
}

const STARTING: ReadinessCheck = {
  name: "worker",
  check: async () => await Promise.reject(new Error("still starting")),
};

/** Starts the parts that need no Temporal, with metrics. */
async function openFront(ready: ReadyConfig, { config, log, closers, screen, stopping }: Start) {
  const step = screen.step("API, portal");
  // The start of the embedded Temporal prepares its namespace.
  await runMigrate({ ...ready, temporalAddress: config.temporalAddress }, log);
  stopping.throwIfAborted();
  const mutualTls = await openDevelopmentCertificates(ready, systemClock.now());
  const link = await prepareEdgeLink(ready, systemClock.now());
  closers.addWork(await openTracing("serve", config));
  const handOver = new HandOverTo();
  const mutualTlsListen = link?.mutualTlsListen;
  const api = await startApi({ config: link?.config ?? ready, log, mutualTlsListen, handOver });
  closers.addWork(async () => await api.close());
  stopping.throwIfAborted();
  const edge = link && (await startEmbeddedEdge({ config: ready, link, api, log }));
  closers.addWork(async () => await edge?.close());
  const readiness: ReadinessCheck[] = [];
  // The edge has the same checks, plus its routes; the worker has the api's.
  const add = (checks: readonly ReadinessCheck[]): void => addChecks(readiness, checks);
  add([...api.readiness, ...(edge?.readiness ?? []), STARTING]);
  const parts = ["api", "worker", ...(edge === undefined ? [] : ["edge" as const])] as const;
  exportMetrics("serve", parts, config.region);
  const metrics = await startMetricsServer({
    listen: config.metricsListen,
    readiness: () => readiness,
    timers: machineTimers,
    log,
  });
  closers.addWork(async () => await metrics.close());
  stopping.throwIfAborted();
  step.done(`http://${formatListen(config.apiListen)}`);
  return {
    mutualTls,
    readiness,
    handOver,
    workerStarted: (worker: RunningProcess) => {
      readiness.splice(readiness.indexOf(STARTING), 1);
      add(worker.readiness);
    },
  };
}

/** Waits for Temporal. If that takes long, because its program is built, says what works meanwhile. */
async function untilTemporal(
  temporal: Promise<unknown>,
  opened: OpenDemo | undefined,
  { screen }: Pick<Start, "screen">,
): Promise<void> {
  try {
    await within(machineTimers, TEMPORAL_START_MS, temporal);
  } catch (error) {
    if (!(error instanceof NoAnswerError)) {
      throw error;
    }
    screen.say("  The API and the portal answer already. Events wait in the outbox until Temporal is ready.");
    const link = opened && (await portalLink(opened));
    if (link !== undefined) {
      screen.say(`  Portal  ${link}`);
    }
    await temporal;
  }
}

async function open(start: Start): Promise<ServeProcess> {
  const { config, log, closers, screen, detail, stopping } = start;
  closers.addLast(await lockHome(config.home));
  await checkPorts(config);
  const { ready, temporal } = await openServers(start);
  stopping.throwIfAborted();
  const { mutualTls, readiness, handOver, workerStarted } = await openFront(ready, start);
  const options = canDemonstrate(config) ? await prepareDemo(ready, start) : undefined;
  const opened = options && (await unlessAborted(stopping, openDemo(options)));
  await untilTemporal(temporal, opened, start);
  const worker = await startWorker({ config: ready, log, stopping, handOver });
  closers.addWork(async () => await worker.close());
  workerStarted(worker);
  closers.addLast(await shareServers(config.home, ready));
  stopping.throwIfAborted();
  const edge = edgeAccess(ready, mutualTls);
  const demo =
    options && opened
      ? await unlessAborted(stopping, demonstrate(opened, options, { config: ready, closers, edge }))
      : undefined;
  stopping.throwIfAborted();
  printDetails(ready, demo, { mutualTls, views: await viewsOf(ready), detail });
  printEnd(ready, demo, { screen });
  return {
    readiness,
    failed: worker.failed,
    close: async () => {
      if (!(await closers.close())) {
        screen.say("Some deliveries did not end in time. They continue at the next start.");
      }
    },
  };
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
 * @param verbose also prints details of each step, and commands for curl
 */
export async function startServe(
  config: Config,
  stopping: AbortSignal,
  verbose: boolean,
): Promise<ServeProcess> {
  const log = openLog(config);
  const closers = new Closers();
  const { stdout } = process;
  const screen = createScreen({
    write: (text) => void stdout.write(text),
    // The size of a terminal in another session changes without a signal.
    columns: () => (stdout.isTTY ? stdout.getWindowSize()[0] : undefined),
    paint: painter(wantsColour(stdout.isTTY)),
    monotonicMs: machineTimers.monotonic,
  });
  const detail = (line: string): void => (verbose ? screen.say(`  ${line}`) : undefined);
  stopping.addEventListener("abort", () => {
    screen.end();
    screen.say("Ending: finishing work in progress first.");
  });
  screen.say(`Signet ${VERSION}`);
  try {
    return await open({ config, log, closers, screen, detail, stopping });
  } catch (error) {
    screen.end();
    await closers.close();
    throw error;
  }
}
