/** A Temporal server that a test can stop. Its data survives a restart. */
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { inject } from "vitest";
import { isPortFree } from "#processes/embedded/ports.ts";
import { type EmbeddedTemporal, startEmbeddedTemporal } from "#processes/embedded/temporal.ts";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";

const NAMESPACE = "signet";

export interface OwnTemporal {
  /** The same after every start. */
  readonly address: string;
  readonly namespace: string;
  /** Starts it again. */
  start(): Promise<void>;
  /** Shuts it down gracefully. */
  stop(): Promise<void>;
  /** Kills it; resolves when the process and its port are free. */
  kill(): Promise<void>;
  /** Stops it and removes its data. */
  close(): Promise<void>;
}

/** Starts it on a free port. */
export async function startOwnTemporal(): Promise<OwnTemporal> {
  const home = await mkdtemp(join(inject("runDirectory"), "own-temporal-"));
  const port = await freePort();
  const start = async (): Promise<EmbeddedTemporal> =>
    await startEmbeddedTemporal({
      binary: inject("temporalBinary"),
      home,
      port,
      uiPort: null,
      namespaces: [NAMESPACE],
      dbFilename: join(home, "temporal.db"),
      log: () => undefined,
    });
  let server = await start();
  return {
    address: server.address,
    namespace: NAMESPACE,
    start: async () => {
      server = await start();
    },
    stop: async () => await server.stop(),
    kill: async () => {
      process.kill(server.pid, "SIGKILL");
      // A killed process holds its port until its last thread has ended.
      await eventually(async () => await isPortFree("127.0.0.1", port), "Temporal and its port to be gone");
    },
    close: async () => {
      await server.stop();
      await rm(home, { recursive: true, force: true });
    },
  };
}
