/** Entry point: argv → a process or a command of the command line. */
import { setFlagsFromString } from "node:v8";
import { CommandError, EXIT } from "#cli/exit-codes.ts";
import { printable } from "#cli/output.ts";
import type { ProcessRunners } from "#cli/program.ts";
import {
  type Config,
  ConfigError,
  type ConfigFor,
  configFromProcess,
  developmentConfigFromProcess,
  operatorSettingsFromProcess,
  processEnvironment,
} from "#config/config.ts";
import { SignetError } from "#domain/errors.ts";
import type { Logger } from "#observability/logger.ts";
import { whyNodeIsTooOld } from "#runtime/package.ts";
import { createLog, createServerLog, runHere } from "./command-line.ts";
import type { Finding } from "./doctor/checks.ts";
import { sharedServers } from "./serve/shared-servers.ts";
import type { RunningProcess } from "./with-metrics.ts";

/** Longer than a process needs to finish its work, shorter than a container's grace period of 20 s. */
const CLOSE_TIMEOUT_MS = 18_000;
/** `npm start` ends within 10 s. At this timeout, servers that still run are killed. */
const SERVE_CLOSE_TIMEOUT_MS = 9_200;

/** @param stopping aborts a long start; a start that ignores it is closed once it is done */
type StartProcess = (config: Config, log: Logger, stopping: AbortSignal) => Promise<RunningProcess>;

function need<Name extends "databaseUrl" | "temporalAddress">(
  config: Config,
  name: Name,
  variable: string,
): string {
  const value = config[name] ?? sharedServers(config)[name];
  if (value === undefined) {
    throw new ConfigError([
      `${variable} must be set; only \`signet serve\` starts its own, and processes in the same directory join it`,
    ]);
  }
  return value;
}

/**
 * Lets the next full garbage collection wait until the old generation has doubled. V8 chooses a tenth by itself, so an api
 * at half load ran one every 2 s, and each delayed answers for 50 to 100 ms (docs/benchmarks.md, `tokens`). Workers keep
 * V8's choice: they need the memory, and nobody waits for their turns.
 */
function collectGarbageLessOften(): void {
  setFlagsFromString("--heap-growing-percent=100");
}

/** Returns the settings with the addresses of PostgreSQL and Temporal. */
function readyConfig(config: Config) {
  const databaseUrl = need(config, "databaseUrl", "SIGNET_DATABASE_URL");
  const temporalAddress = need(config, "temporalAddress", "TEMPORAL_ADDRESS");
  return { ...config, databaseUrl, temporalAddress };
}

const startApi: StartProcess = async (config, log) => {
  collectGarbageLessOften();
  const ready = readyConfig(config);
  const api = await import("./api.ts");
  const { withMetrics } = await import("./with-metrics.ts");
  return await withMetrics("api", config, log, async () => await api.startApi({ config: ready, log }));
};

const startWorker: StartProcess = async (config, log, stopping) => {
  const ready = readyConfig(config);
  const worker = await import("./worker.ts");
  const { withMetrics } = await import("./with-metrics.ts");
  return await withMetrics(
    "worker",
    config,
    log,
    async () => await worker.startWorker({ config: ready, log, stopping }),
  );
};

const startAll: StartProcess = async (config, log, stopping) => {
  collectGarbageLessOften();
  const ready = readyConfig(config);
  const all = await import("./all.ts");
  const { withMetrics } = await import("./with-metrics.ts");
  const environment = processEnvironment();
  const edge = all.hasEdgeInside(config) ? (["edge"] as const) : [];
  return await withMetrics(
    { name: "all", parts: ["api", "worker", ...edge] },
    config,
    log,
    async () => await all.startAll({ config: ready, environment, log }, stopping),
  );
};

const startEdge: StartProcess = async (config, log) => {
  collectGarbageLessOften();
  const known =
    config.hubs === undefined
      ? { ...config, databaseUrl: need(config, "databaseUrl", "SIGNET_DATABASE_URL") }
      : config;
  const edge = await import("./edge.ts");
  const { withMetrics } = await import("./with-metrics.ts");
  const environment = processEnvironment();
  return await withMetrics(
    "edge",
    config,
    log,
    async () => await edge.startEdge({ config: known, environment, log }),
  );
};

const startHub: StartProcess = async (config, log) => {
  // Nothing that a hub makes lives long, so it needs little room. Twenty small collections a second take 1 % of a core.
  setFlagsFromString("--semi-space-growth-factor=1");
  const hub = await import("./hub.ts");
  const { withMetrics } = await import("./with-metrics.ts");
  return await withMetrics("hub", config, log, async () => await hub.startHub({ config, log }));
};

const startServe =
  (verbose: boolean): StartProcess =>
  async (config, _log, stopping) => {
    const serve = await import("./serve.ts");
    return await serve.startServe(config, stopping, verbose);
  };

async function migrate(): Promise<void> {
  const config = configFromProcess();
  const { runMigrate } = await import("./migrate.ts");
  const { AdministratorNeededError } = await import("#temporal/namespace.ts");
  try {
    await runMigrate(config, await createServerLog(config.logLevel));
  } catch (error) {
    if (error instanceof AdministratorNeededError) {
      throw new CommandError(`${error.message}.`, { exitCode: EXIT.notAllowed, cause: error });
    }
    throw error;
  }
}

function replayCount(given: unknown): number {
  if (given === undefined) {
    return 0;
  }
  if (typeof given !== "string" || !/^\d{1,6}$/.test(given)) {
    throw new CommandError("--replay takes a whole number.", { exitCode: EXIT.usage });
  }
  return Number(given);
}

/** Without settings, assume the development instance of `npm start`. */
async function doctorsConfig(): Promise<Config> {
  const { isStartedHere } = await import("./embedded/addresses.ts");
  const { SIGNET_ENV: environment, SIGNET_DATABASE_URL: database } = processEnvironment();
  const beside =
    (environment ?? "") === "" &&
    (database ?? "") === "" &&
    (await isStartedHere(operatorSettingsFromProcess()));
  return beside ? developmentConfigFromProcess() : configFromProcess();
}

/** Checks an edge or a hub, which have no login of the service. Undefined for any other process. */
async function examineOutside(): Promise<readonly Finding[] | undefined> {
  const given = processEnvironment();
  const has = (variable: string): boolean =>
    (given[variable] ?? "") !== "" || (given[`${variable}_FILE`] ?? "") !== "";
  if (has("SIGNET_DATABASE_URL")) {
    return undefined;
  }
  if (has("SIGNET_HUBS")) {
    const { examineHubs } = await import("./doctor/hubs.ts");
    const { hubs = [], ...config } = configFromProcess("edge");
    return await examineHubs({ ...config, hubs }, await createLog("silent"));
  }
  if (!has("SIGNET_EDGE_DATABASE_URL")) {
    return undefined;
  }
  const config = configFromProcess(has("SIGNET_HUB_KEY") ? "hub" : "edge");
  const { runOutsideDoctor } = await import("./doctor.ts");
  return await runOutsideDoctor({
    ...config,
    databaseUrl: need(config, "databaseUrl", "SIGNET_EDGE_DATABASE_URL"),
  });
}

async function examineService(replay: number): Promise<readonly Finding[]> {
  const { withEmbeddedAddresses } = await import("./embedded/addresses.ts");
  const config = await withEmbeddedAddresses(await doctorsConfig());
  const { runDoctor } = await import("./doctor.ts");
  return await runDoctor({ config: readyConfig(config), replay });
}

async function doctor(options: Readonly<Record<string, unknown>>): Promise<void> {
  const replay = replayCount(options["replay"]);
  const findings = (await examineOutside()) ?? (await examineService(replay));
  const well = findings.every(({ ok }) => ok);
  if (options["json"] === true) {
    process.stdout.write(`${JSON.stringify({ ok: well, data: findings }, null, 2)}\n`);
  } else {
    for (const { check, ok, detail } of findings) {
      process.stdout.write(`${ok ? "ok  " : "FAIL"}  ${check.padEnd(9)}  ${printable(detail)}\n`);
    }
  }
  if (!well) {
    throw new CommandError("some checks failed");
  }
}

interface RunOptions {
  readonly asks?: ConfigFor;
  /** SIGHUP reads the route table again; otherwise it ends the process. */
  readonly reloads?: boolean;
  /** Time to close, in milliseconds; then the process exits. */
  readonly closeTimeoutMs?: number;
  readonly logsEnding?: boolean;
}

/**
 * Runs a process until a signal ends it, even during its start. A failed start or a fatal failure
 * exits with code 1.
 */
function untilSignal(
  start: StartProcess,
  {
    asks = "service",
    reloads = false,
    closeTimeoutMs = CLOSE_TIMEOUT_MS,
    logsEnding = true,
  }: RunOptions = {},
): () => Promise<void> {
  return async () => {
    const config = configFromProcess(asks);
    const log = await createServerLog(config.logLevel);
    const { default: closeWithGrace } = await import("close-with-grace");
    const stopping = new AbortController();
    const starting = start(config, log, stopping.signal);
    if (reloads) {
      process.on(
        "SIGHUP",
        () => void starting.then(async (started) => await started.reload?.()).catch(() => undefined),
      );
    }
    const options = {
      delay: closeTimeoutMs,
      logger: log,
      ...(reloads ? { skip: ["SIGHUP" as const] } : {}),
    };
    const grace = closeWithGrace(options, async ({ err, signal }) => {
      if (err !== undefined) {
        log.fatal({ err }, "ending after an uncaught error");
      } else if (logsEnding) {
        log.info({ signal }, "ending");
      }
      stopping.abort();
      const started = await starting.catch(() => undefined);
      await started?.close();
    });
    const running = await starting.catch((error: unknown) => {
      if (stopping.signal.aborted) {
        return undefined;
      }
      // A terminal gets the sentence on standard error; collectors read the lines of the log.
      if (error instanceof SignetError && logsEnding && !process.stdout.isTTY) {
        log.fatal({ reasons: [error.message] }, "could not start");
      }
      throw error;
    });
    running?.failed?.catch((error: unknown) => {
      log.fatal({ err: error }, "ending after a fatal failure");
      process.exitCode = EXIT.failed;
      grace.close();
    });
  };
}

const PROCESSES: ProcessRunners = {
  api: untilSignal(startApi),
  worker: untilSignal(startWorker),
  all: untilSignal(startAll, { reloads: true }),
  edge: untilSignal(startEdge, { asks: "edge", reloads: true }),
  hub: untilSignal(startHub, { asks: "hub" }),
  serve: async ({ verbose }) => {
    // It speaks to people at a terminal; its log is a file.
    const options = { closeTimeoutMs: SERVE_CLOSE_TIMEOUT_MS, logsEnding: false };
    await untilSignal(startServe(verbose === true), options)();
  },
  doctor,
  migrate,
};

const tooOld = whyNodeIsTooOld(process.versions.node);
if (tooOld === undefined) {
  await runHere(PROCESSES);
} else {
  process.stderr.write(`signet: ${tooOld}\n`);
  process.exitCode = EXIT.failed;
}
