/**
 * Moto, an emulator of AWS from PyPI, in a process of its own: KMS encrypts with AES-GCM and its context, S3 has versions,
 * conditional writes and object lock. It does not check credentials.
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";
import { runProcess, spawnProcess } from "./processes.ts";
import { skipUnless } from "./skips.ts";

const MOTO = "moto[kms,s3,server]==5.2.5";
/** Stays between runs, by its version. */
const PLACE = join(process.env["SIGNET_CACHE"] ?? join(homedir(), ".cache", "signet"), "emulators", MOTO);
const PYTHON = join(PLACE, "bin", "python");
const PROGRAM = join(PLACE, "bin", "moto_server");
/** The variables that the clients of AWS read. */
const CREDENTIALS = { AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test" };
const ENDPOINTS = ["AWS_ENDPOINT_URL_KMS", "AWS_ENDPOINT_URL_S3"];

export const AWS_REGION = "eu-west-1";

/** For `skipIf`. */
export function withoutAwsServer(tests: string): boolean {
  const found = existsSync(PROGRAM)
    ? undefined
    : spawnSync("python3", ["-m", "pip", "index", "versions", "moto"], { timeout: 60_000 });
  const reason = found?.error?.message ?? found?.stderr.toString().slice(0, 200) ?? "";
  return skipUnless(found === undefined || found.status === 0, tests, `PyPI cannot be used: ${reason}`);
}

async function install(): Promise<void> {
  const environment = process.env;
  await mkdir(PLACE, { recursive: true });
  await runProcess({ command: ["python3", "-m", "venv", PLACE], cwd: PLACE, environment });
  await runProcess({ command: [PYTHON, "-m", "pip", "install", "--quiet", MOTO], cwd: PLACE, environment });
}

export interface AwsServer {
  readonly port: number;
  readonly url: string;
  close(): Promise<void>;
}

/** Installs the emulator, unless an earlier run did, and starts it empty. Clients in this process find it. */
export async function startAwsServer(): Promise<AwsServer> {
  if (!existsSync(PROGRAM)) {
    await install();
  }
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const command = [PROGRAM, "--host", "127.0.0.1", "--port", String(port)];
  const server = spawnProcess({ command, cwd: PLACE, environment: process.env });
  await eventually(async () => (await fetch(url).catch(() => undefined)) !== undefined, "moto to answer");
  const variables = { ...CREDENTIALS, ...Object.fromEntries(ENDPOINTS.map((name) => [name, url])) };
  const before = Object.keys(variables).map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, variables);
  return {
    port,
    url,
    close: async () => {
      for (const [name, value] of before) {
        if (value === undefined) {
          delete process.env[name];
        } else {
          process.env[name] = value;
        }
      }
      await server.stop();
    },
  };
}
