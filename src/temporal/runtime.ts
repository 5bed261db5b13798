import { DefaultLogger, Runtime } from "@temporalio/worker";
import type { Logger } from "pino";

const LEVELS = { TRACE: "trace", DEBUG: "debug", INFO: "info", WARN: "warn", ERROR: "error" } as const;
let installed = false;

/**
 * Sends the SDK's log lines to ours and leaves signals to the process, which stops claiming before its workers stop.
 * Once per process; later calls do nothing.
 */
export function installTemporalRuntime(log: Logger): void {
  if (installed) {
    return;
  }
  installed = true;
  const child = log.child({ component: "temporal" });
  Runtime.install({
    shutdownSignals: [],
    logger: new DefaultLogger("WARN", ({ level, message, meta }) => {
      child[LEVELS[level]]({ ...meta }, message);
    }),
    telemetryOptions: {
      logging: { forward: {}, filter: "temporalio_sdk_core=WARN,temporalio_client=ERROR" },
    },
  });
}
