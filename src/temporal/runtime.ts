import { type AddressInfo, createServer } from "node:net";
import { DefaultLogger, Runtime } from "@temporalio/worker";
import type { Logger } from "pino";
import { addMetricsSource } from "../observability/process-metrics.ts";

const LEVELS = { TRACE: "trace", DEBUG: "debug", INFO: "info", WARN: "warn", ERROR: "error" } as const;
const HOST = "127.0.0.1";
/** The port is free when it is looked for; somebody may be faster. */
const PORT_TRIES = 3;
const SCRAPE_TIMEOUT_MS = 2_000;
let installed: Promise<void> | undefined;

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(0, HOST, resolve);
  });
  const { port } = server.address() as AddressInfo;
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return port;
}

function install(log: Logger, bindAddress: string | undefined): void {
  Runtime.install({
    shutdownSignals: [],
    logger: new DefaultLogger("WARN", ({ level, message, meta }) => {
      log[LEVELS[level]]({ ...meta }, message);
    }),
    telemetryOptions: {
      logging: { forward: {}, filter: "temporalio_sdk_core=WARN,temporalio_client=ERROR" },
      ...(bindAddress === undefined
        ? {}
        : {
            metrics: {
              prometheus: {
                bindAddress,
                countersTotalSuffix: true,
                unitSuffix: true,
                useSecondsForDurations: true,
              },
            },
          }),
    },
  });
}

async function scrape(url: string): Promise<string> {
  const response = await fetch(url, { signal: AbortSignal.timeout(SCRAPE_TIMEOUT_MS) });
  return await response.text();
}

async function installWithMetrics(log: Logger): Promise<void> {
  for (let tries = 0; tries < PORT_TRIES; tries += 1) {
    const address = `${HOST}:${await freePort()}`;
    try {
      install(log, address);
      addMetricsSource(async () => await scrape(`http://${address}/metrics`));
      return;
    } catch (error) {
      log.warn({ err: error, address }, "the SDK of Temporal cannot serve its metrics there");
    }
  }
  install(log, undefined);
}

/**
 * Sends the SDK's log lines to ours and leaves signals to the process, which stops claiming before its workers stop.
 * The SDK's core serves its metrics on a port of its own; they are fetched from there whenever ours are asked for, so
 * that a process has one address to scrape. Once per process; later calls wait for the first.
 */
export async function installTemporalRuntime(log: Logger): Promise<void> {
  installed ??= installWithMetrics(log.child({ component: "temporal" }));
  await installed;
}
