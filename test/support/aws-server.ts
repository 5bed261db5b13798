/**
 * Servers that speak the protocols of AWS, each in a process of its own.
 *
 * - VersityGW (Go): an S3 gateway for production. It checks signatures, and keeps versions and locks on disk.
 * - Moto (PyPI): an emulator of S3 and KMS. Its KMS encrypts with AES-GCM and the context. It checks no credentials.
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { inject } from "vitest";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";
import { runProcess, type SpawnedProcess, spawnProcess } from "./processes.ts";
import { skipUnless } from "./skips.ts";

export const AWS_REGION = "eu-west-1";

/** The variables that the clients of AWS read. */
const CREDENTIALS = { AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test-secret" };
/** Programs stay here between runs, by their versions. */
const CACHE = join(process.env["SIGNET_CACHE"] ?? join(homedir(), ".cache", "signet"), "aws-servers");

interface Program {
  readonly name: string;
  /** Its path, once it is installed. */
  readonly path: string;
  /** Ends with 0 if the program can be installed here. */
  readonly asks: readonly string[];
  /** Commands that install it into its directory below the cache. */
  readonly installs: readonly (readonly string[])[];
  readonly run: (port: number) => Promise<SpawnedProcess>;
}

const MOTO = "moto[kms,s3,server]==5.2.5";
const MOTO_PLACE = join(CACHE, MOTO);
const GATEWAY = "github.com/versity/versitygw/cmd/versitygw@v1.8.0";
const GATEWAY_PLACE = join(CACHE, "versitygw@v1.8.0");

const moto: Program = {
  name: "moto",
  path: join(MOTO_PLACE, "bin", "moto_server"),
  asks: ["python3", "-m", "pip", "index", "versions", "moto"],
  installs: [
    ["python3", "-m", "venv", MOTO_PLACE],
    [join(MOTO_PLACE, "bin", "python"), "-m", "pip", "install", "--quiet", MOTO],
  ],
  run: async (port) =>
    await Promise.resolve(
      spawnProcess({
        command: [moto.path, "--host", "127.0.0.1", "--port", String(port)],
        cwd: MOTO_PLACE,
        environment: process.env,
      }),
    ),
};

const gateway: Program = {
  name: "VersityGW",
  path: join(GATEWAY_PLACE, "versitygw"),
  asks: ["go", "list", "-m", "github.com/versity/versitygw@v1.8.0"],
  installs: [["env", `GOBIN=${GATEWAY_PLACE}`, "go", "install", GATEWAY]],
  run: async (port) => {
    const place = await mkdtemp(join(inject("runDirectory"), "versitygw-"));
    const [objects, versions, metadata] = ["objects", "versions", "metadata"].map((name) =>
      join(place, name),
    );
    await Promise.all([objects, versions, metadata].map(async (path = "") => await mkdir(path)));
    // With metadata in files, it needs no extended attributes.
    const kept = ["--versioning-dir", versions ?? "", "--sidecar", metadata ?? "", objects ?? ""];
    return spawnProcess({
      command: [
        ...[gateway.path, "--quiet", "--region", AWS_REGION, "--port", `127.0.0.1:${port}`],
        ...["posix", ...kept],
      ],
      cwd: place,
      environment: {
        ROOT_ACCESS_KEY: CREDENTIALS.AWS_ACCESS_KEY_ID,
        ROOT_SECRET_KEY: CREDENTIALS.AWS_SECRET_ACCESS_KEY,
      },
    });
  },
};

export type AwsServerName = "moto" | "VersityGW";
const PROGRAMS: Readonly<Record<AwsServerName, Program>> = { moto, VersityGW: gateway };

/** For `skipIf`. */
export function withoutAwsServer(name: AwsServerName, tests: string): boolean {
  const {
    path,
    asks: [program = "", ...args],
  } = PROGRAMS[name];
  const found = existsSync(path) ? undefined : spawnSync(program, args, { timeout: 60_000 });
  const reason = found?.error?.message ?? found?.stderr.toString().slice(0, 200) ?? "";
  return skipUnless(found === undefined || found.status === 0, tests, `${name} cannot be had: ${reason}`);
}

export interface AwsServer {
  readonly url: string;
  close(): Promise<void>;
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

/** Starts a server without content, and installs it unless an earlier run did. Clients of KMS in this process find it. */
export async function startAwsServer(name: AwsServerName): Promise<AwsServer> {
  const { path, installs, run } = PROGRAMS[name];
  if (!existsSync(path)) {
    await mkdir(CACHE, { recursive: true });
    for (const command of installs) {
      await runProcess({ command, cwd: CACHE, environment: process.env });
    }
  }
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const server = await run(port);
  await eventually(async () => (await fetch(url).catch(() => undefined)) !== undefined, `${name} to answer`);
  const setBack = setVariables({ ...CREDENTIALS, AWS_ENDPOINT_URL_KMS: url });
  return {
    url,
    close: async () => {
      setBack();
      await server.stop();
    },
  };
}
