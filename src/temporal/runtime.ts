import { type AddressInfo, createServer } from "node:net";
import { DefaultLogger, Runtime } from "@temporalio/worker";
import type { Logger } from "pino";
import { readText } from "#lib/bounded-body.ts";
import { addMetricsSource } from "#observability/process-metrics.ts";

const LEVELS = { TRACE: "trace", DEBUG: "debug", INFO: "info", WARN: "warn", ERROR: "error" } as const;
const HOST = "127.0.0.1";
/** Another process may take the port between the check and its use. */
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
  return await readText(response);
}

async function installWithMetrics(log: Logger): Promise<void> {
  for (let tries = 0; tries < PORT_TRIES; tries += 1) {
    const address = `${HOST}:${await freePort()}`;
    try {
      install(log, address);
      addMetricsSource(async () => await scrape(`http://${address}/metrics`));
      return;
    } catch (error) {
      log.warn({ err: error, address }, "the Temporal SDK cannot serve its metrics at this address");
    }
  }
  install(log, undefined);
}

/**
 * Forwards the SDK's log lines to our log. Leaves signals to the process, which stops claiming before its workers
 * stop. The SDK's core serves metrics on its own port. Ours include them, so a process has one address to scrape.
 * Runs once per process; later calls wait for the first.
 */
export async function installTemporalRuntime(log: Logger): Promise<void> {
  installed ??= installWithMetrics(log.child({ component: "temporal" }));
  await installed;
}
