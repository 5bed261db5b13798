/** Hubs as in a deployment: the production build, with mutual TLS to the edges behind them. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Environment } from "../../src/config/config.ts";
import { newRoot, today } from "./certificates.ts";
import { eventually } from "./eventually.ts";
import { freePorts } from "./free-port.ts";
import { type SpawnedProcess, spawnSignet } from "./processes.ts";

const START_MS = 60_000;

/** Settings of mutual TLS for a hub, and for an edge behind it. */
export interface HubSettings {
  readonly hub: Environment;
  readonly edge: Environment;
}

/** Writes certificates for hubs and edges into a directory. */
export async function writeHubCertificates(directory: string): Promise<HubSettings> {
  const root = await newRoot();
  const ca = join(directory, "ca.pem");
  writeFileSync(ca, root.cert);
  const write = async (name: string, permitted: string): Promise<Environment> => {
    const { key, cert } = await root.issue({
      subject: `CN=${name}`,
      names: [{ type: "dns", value: `${name}.test` }],
      purposes: ["serverAuth", "clientAuth"],
      ...today(),
    });
    const [keyFile, certFile] = [join(directory, `${name}.key`), join(directory, `${name}.pem`)];
    writeFileSync(keyFile, key);
    writeFileSync(certFile, cert);
    return {
      SIGNET_HUB_CA_FILE: ca,
      SIGNET_HUB_KEY_FILE: keyFile,
      SIGNET_HUB_CERT_FILE: certFile,
      SIGNET_HUB_NAMES: permitted,
    };
  };
  return {
    hub: await write("hub", "DNS:hub.test,DNS:edge.test"),
    edge: await write("edge", "DNS:hub.test"),
  };
}

/** A hub in a process of its own. */
export interface HubChild {
  readonly url: string;
  readonly port: number;
  /** The current process. */
  readonly process: SpawnedProcess;
  /** Starts it, again after it was killed. Resolves when it is ready. */
  start(): Promise<void>;
}

/** Prepares a hub process that `start` starts. */
export async function createHubProcess(environment: Environment): Promise<HubChild> {
  const [port = 0, metricsPort = 0] = await freePorts(2);
  let child: SpawnedProcess | undefined;
  return {
    url: `wss://127.0.0.1:${port}`,
    port,
    get process() {
      if (child === undefined) {
        throw new Error("the hub was not started");
      }
      return child;
    },
    start: async () => {
      const started = spawnSignet(["hub"], {
        SIGNET_ENV: "development",
        SIGNET_LOG_LEVEL: "warn",
        SIGNET_HUB_LISTEN: `127.0.0.1:${port}`,
        SIGNET_METRICS_LISTEN: `127.0.0.1:${metricsPort}`,
        ...environment,
      });
      child = started;
      await eventually(
        async () =>
          started.state() !== undefined || (await fetch(`http://127.0.0.1:${metricsPort}/readyz`)).ok,
        "a hub to be ready",
        START_MS,
      );
      if (started.state() !== undefined) {
        throw new Error(`a hub exited:\n${started.output()}`);
      }
    },
  };
}
