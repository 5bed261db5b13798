/**
 * Servers that speak the protocols of AWS, built from Go modules, each in a process of its own.
 *
 * - VersityGW, an S3 gateway for production. It checks signatures, and keeps versions and locks on disk.
 * - Local KMS, a KMS for development: AES-GCM with the context, and the states of keys. It checks no credentials.
 */
import { existsSync } from "node:fs";
import { mkdir, mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { inject } from "vitest";
import type { Environment } from "#config/config.ts";
import { QUICK_BUILD } from "#processes/embedded/go-install.ts";
import { CACHE } from "./cache.ts";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";
import { runProcess, spawnProcess } from "./processes.ts";
import { lacks } from "./skips.ts";

export const AWS_REGION = "eu-west-1";

/** The variables that the clients of AWS read. */
const CREDENTIALS = { AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test-secret" };

interface Server {
  readonly module: string;
  readonly version: string;
  /** Package of the program below the module. */
  readonly program: string;
  /** Returns its arguments and its environment. */
  readonly start: (
    port: number,
    directory: string,
  ) => Promise<readonly [args: readonly string[], Environment]>;
}

const SERVERS = {
  VersityGW: {
    module: "github.com/versity/versitygw",
    version: "v1.8.0",
    program: "cmd/versitygw",
    start: async (port, directory) => {
      const places = ["versions", "metadata", "objects"].map((name) => join(directory, name));
      const [versions = "", metadata = "", objects = ""] = places;
      await Promise.all(places.map(async (path) => await mkdir(path)));
      const listen = ["--quiet", "--region", AWS_REGION, "--port", `127.0.0.1:${port}`];
      // With metadata in files, it needs no extended attributes.
      const kept = ["posix", "--versioning-dir", versions, "--sidecar", metadata, objects];
      const environment = {
        ROOT_ACCESS_KEY: CREDENTIALS.AWS_ACCESS_KEY_ID,
        ROOT_SECRET_KEY: CREDENTIALS.AWS_SECRET_ACCESS_KEY,
      };
      return [[...listen, ...kept], environment];
    },
  },
  "Local KMS": {
    module: "github.com/nsmithuk/local-kms",
    version: "v0.0.0-20260228092603-2a5e92d09ab6",
    program: "",
    start: async (port, directory) =>
      await Promise.resolve([
        [],
        { PORT: String(port), KMS_REGION: AWS_REGION, KMS_DATA_PATH: directory },
      ] as const),
  },
} as const satisfies Record<string, Server>;

type ServerName = keyof typeof SERVERS;

function pathOf(name: ServerName): string {
  const { module, version } = SERVERS[name];
  const program = module.split("/").at(-1) ?? "";
  return join(CACHE, "aws-servers", `${program}@${version}`, program);
}

/** For `skipIf`. */
export function withoutAwsServer(name: ServerName, tests: string): boolean {
  const { module, version } = SERVERS[name];
  return !existsSync(pathOf(name)) && lacks(tests, `go list -m ${module}@${version}`);
}

/** Builds a server unless an earlier run did: some minutes. */
async function build(name: ServerName): Promise<void> {
  if (existsSync(pathOf(name))) {
    return;
  }
  const { module, version, program } = SERVERS[name];
  const directory = join(pathOf(name), "..");
  await mkdir(directory, { recursive: true });
  const source = [module, program].filter((part) => part !== "").join("/");
  const command = ["go", "install", ...Object.values(QUICK_BUILD), `${source}@${version}`];
  await runProcess({ command, cwd: directory, environment: { ...process.env, GOBIN: directory } });
}

/** Builds all servers. */
export async function fetchAwsServers(): Promise<void> {
  for (const name of Object.keys(SERVERS) as ServerName[]) {
    await build(name);
  }
}

/** Sets variables of this process. @returns a function that sets them back */
function setVariables(variables: Readonly<Record<string, string>>): () => void {
  const before = Object.keys(variables).map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, variables);
  return () => {
    for (const [name, value] of before) {
      if (value === undefined) {
        delete process.env[name];
      } else {
        process.env[name] = value;
      }
    }
  };
}

export interface AwsServer {
  readonly url: string;
  close(): Promise<void>;
}

/** Builds and starts a server without content. Clients in this process have its credentials, and find a KMS. */
export async function startAwsServer(name: ServerName): Promise<AwsServer> {
  await build(name);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const directory = await mkdtemp(join(inject("runDirectory"), "aws-server-"));
  const [args, environment] = await SERVERS[name].start(port, directory);
  const server = spawnProcess({ command: [pathOf(name), ...args], cwd: directory, environment });
  await eventually(async () => (await fetch(url).catch(() => undefined)) !== undefined, `${name} to answer`);
  const endpoint = name === "Local KMS" ? { AWS_ENDPOINT_URL_KMS: url } : {};
  const setBack = setVariables({ ...CREDENTIALS, ...endpoint });
  return {
    url,
    close: async () => {
      setBack();
      await server.stop();
    },
  };
}
