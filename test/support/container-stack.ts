/**
 * docker-compose.yml in a real container engine, in a copy of this clone: commands run as they are printed in README.md
 * and docs/. Ports and networks are those of the file, so one stack runs at a time.
 */
import { execFile, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { createTlsFetch } from "#lib/client/tls-fetch.ts";
import { type VerifiedPayload, verify } from "#lib/receiver/verify.ts";
import { createAuthority } from "#http/mutual-tls/authority.ts";
import { today } from "./certificates.ts";
import { shellLines } from "./documents.ts";
import { eventually } from "./eventually.ts";
import { skipUnless } from "./skips.ts";
import { workTreeFiles } from "./work-tree.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..");
/** Another project than the file's, so that a stack in use keeps its volumes. */
const PROJECT = "signet-tests";
const COMMAND_MS = 600_000;
/** Host name of the receiver on the stack's network. */
const RECEIVER = "receiver.example.com";

/** A program `engine` that starts a container engine and runs `docker` in it: `engine up`, `engine docker …`. */
const ENGINE = process.env["SIGNET_TEST_ENGINE"] ?? "";

/** Returns a directory for PATH with the engine's `docker`. Undefined if PATH has one that answers. */
function engineShim(): string | undefined {
  if (!existsSync(ENGINE)) {
    return undefined;
  }
  const directory = mkdtempSync(join(tmpdir(), "signet-docker-"));
  writeFileSync(join(directory, "docker"), `#!/bin/sh\nexec '${ENGINE}' docker "$@"\n`, { mode: 0o755 });
  return directory;
}

function answers(path: string): boolean {
  const probe = ["version", "--format", "{{.Server.Version}}"];
  return spawnSync("docker", probe, { env: { ...process.env, PATH: path } }).status === 0;
}

function pathOf(): string | undefined {
  const path = process.env["PATH"] ?? "";
  if (answers(path)) {
    return path;
  }
  const shim = engineShim();
  const shimmed = `${shim}${delimiter}${path}`;
  if (shim !== undefined && answers(shimmed)) {
    return shimmed;
  }
  if (
    shim === undefined ||
    spawnSync(ENGINE, ["up"], { stdio: ["ignore", "inherit", "inherit"] }).status !== 0
  ) {
    return undefined;
  }
  return shimmed;
}

const path = pathOf();

/** Whether this machine has no container engine. */
export const NO_ENGINE = skipUnless(
  path !== undefined,
  "the tests in a container engine",
  "no Docker engine answers, and SIGNET_TEST_ENGINE names none",
);

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  /** Both outputs. */
  readonly output: string;
}

/** A delivery as the receiver got it. */
export interface Received {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** In base64. */
  readonly body: string;
}

/** Verifies a received webhook with the endpoint's secret. */
export function verifyDelivered({ headers, body }: Received, secret: string): VerifiedPayload {
  return verify({ rawBody: Buffer.from(body, "base64"), headers, secrets: [secret], now: Date.now() });
}

/** Copies what git would clone here, also what is not committed yet, readable by its owner only. */
function copyClone(directory: string): void {
  const archive = spawnSync("tar", ["--create", "--mode=go=", "--null", "--files-from=-"], {
    cwd: REPOSITORY,
    input: workTreeFiles().join("\0"),
    maxBuffer: 1_024 * 1_048_576,
  });
  spawnSync("tar", ["--extract"], { cwd: directory, input: archive.stdout });
}

/** A clone with its stack. */
export class ContainerStack {
  readonly directory = mkdtempSync(join(tmpdir(), "signet-stack-"));
  readonly #environment: NodeJS.ProcessEnv;
  readonly #receiver = join(this.directory, "receiver");

  private constructor() {
    this.#environment = {
      HOME: process.env["HOME"],
      PATH: path,
      COMPOSE_PROJECT_NAME: PROJECT,
      // What Compose draws for a terminal is of no use in a failure's text.
      COMPOSE_PROGRESS: "plain",
    };
    copyClone(this.directory);
    chmodSync(this.directory, 0o755);
  }

  /** Makes a clone with `.env` and the files of a receiver with a private authority. Adds further lines to `.env`. */
  static async prepare(added: Readonly<Record<string, string>> = {}): Promise<ContainerStack> {
    const stack = new ContainerStack();
    await stack.#makeReceiver();
    await stack.#configure({
      SIGNET_ALLOWED_TARGET_CIDRS: "172.16.0.0/12",
      SIGNET_TARGET_CA_FILE: "./receivers-ca.crt",
      ...added,
    });
    return stack;
  }

  /** Runs lines in bash, in the clone. Resolves also if they fail. */
  async try(lines: string, environment: Readonly<Record<string, string>> = {}): Promise<Ran> {
    return await new Promise((resolve) => {
      const child = execFile(
        "bash",
        ["-euo", "pipefail", "-c", lines],
        {
          cwd: this.directory,
          env: { ...this.#environment, ...environment },
          maxBuffer: 64 * 1_048_576,
          timeout: COMMAND_MS,
        },
        (error, stdout, stderr) =>
          resolve({ code: error === null ? 0 : Number(error.code ?? 1), stdout, output: stdout + stderr }),
      );
      child.stdin?.end();
    });
  }

  /** Runs lines in bash, in the clone. Resolves with standard output. @throws Error with the output, if they fail */
  async run(lines: string): Promise<string> {
    const { code, stdout, output } = await this.try(lines);
    if (code !== 0) {
      const logs = /\bup\b|upgrade/.test(lines)
        ? (await this.try("docker compose logs --tail 20")).output
        : "";
      throw new Error(`${lines}\nended with code ${code}:\n${output}\n${logs}`);
    }
    return stdout;
  }

  /** Runs a line of the documentation as on a terminal, which `docker compose exec` expects. */
  async paste(line: string): Promise<string> {
    return await this.run(`script --quiet --return --command ${quote(line)} /dev/null`);
  }

  /** Runs the command line in the container `signet`, and returns its object. */
  async signet(command: string, service = "signet"): Promise<Record<string, unknown>> {
    const printed = await this.run(`docker compose exec -T ${service} signet ${command} --json`);
    return JSON.parse(printed) as Record<string, unknown>;
  }

  /** Creates `.env` by README's line, and adds lines. */
  async #configure(added: Readonly<Record<string, string>>): Promise<void> {
    const [line = "exit 1"] = await linesOf("README.md", /^sed .* \.env\.example/);
    await this.run(line.replace(/ && docker compose up .*/, ""));
    this.set(added);
  }

  /** Changes lines of `.env`. An empty value removes the line. */
  set(changed: Readonly<Record<string, string>>): void {
    const file = join(this.directory, ".env");
    const kept = readFileSync(file, "utf8")
      .split("\n")
      .filter((line) => line !== "" && !(line.replace(/=.*/, "") in changed));
    const added = Object.entries(changed).filter(([, value]) => value !== "");
    writeFileSync(file, `${[...kept, ...added.map((pair) => pair.join("="))].join("\n")}\n`);
  }

  /** Returns the value of a line of `.env`. */
  value(name: string): string {
    const line = new RegExp(`^${name}=(.*)$`, "m").exec(readFileSync(join(this.directory, ".env"), "utf8"));
    return line?.[1] ?? "";
  }

  /** Makes the receiver's certificate, and the file with its root that `.env` may name. */
  async #makeReceiver(): Promise<void> {
    mkdirSync(this.#receiver);
    const root = await createAuthority({ subject: "CN=Receivers", ...today() });
    const names = [{ type: "dns", value: RECEIVER } as const];
    const pair = await root.issue({ subject: "CN=receiver", names, purposes: ["serverAuth"], ...today() });
    writeFileSync(join(this.directory, "receivers-ca.crt"), root.cert, { mode: 0o600 });
    writeFileSync(join(this.#receiver, "receiver.pem"), pair.key + pair.cert);
    const script = readFileSync(join(REPOSITORY, "test", "containers", "receiver.mjs"));
    writeFileSync(join(this.#receiver, "receiver.mjs"), script);
    writeFileSync(join(this.#receiver, "received.jsonl"), "");
  }

  /** Starts the receiver on the stack's network, from an image of the service, which has Node. */
  async startReceiver(image = "signet"): Promise<void> {
    await this.run(
      `docker run --detach --name ${PROJECT}-receiver --user root --entrypoint node --network ${PROJECT}_default ` +
        `--network-alias ${RECEIVER} --volume '${this.#receiver}:/receiver' ${image} /receiver/receiver.mjs`,
    );
  }

  /** Lets a further network of the stack reach the receiver. */
  async joinReceiver(network: string): Promise<void> {
    await this.run(`docker network connect --alias ${RECEIVER} ${PROJECT}_${network} ${PROJECT}-receiver`);
  }

  /** Lets the receiver fail, or accept again, what arrives below /broken. */
  breakReceiver(broken: boolean): void {
    const file = join(this.#receiver, "broken");
    if (broken) {
      writeFileSync(file, "");
    } else {
      rmSync(file);
    }
  }

  /** Returns what the receiver got. */
  received(): readonly Received[] {
    return readFileSync(join(this.#receiver, "received.jsonl"), "utf8")
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as Received);
  }

  /** Waits for the nth received webhook whose body contains a text. */
  async untilReceived(text: string, nth = 1): Promise<Received> {
    return await eventually(
      () => this.received().filter(({ body }) => Buffer.from(body, "base64").includes(text))[nth - 1],
      `a webhook with ${text}`,
      120_000,
    );
  }

  /** Returns a `fetch` with the client certificate `example.pem` and the root `ca.crt` of the clone. */
  clientFetch(): ReturnType<typeof createTlsFetch> {
    const read = (name: string): string => readFileSync(join(this.directory, name), "utf8");
    return createTlsFetch({ key: read("example.pem"), cert: read("example.pem"), ca: read("ca.crt") });
  }

  /** Ends the main process of a container as a crash does. After `docker kill` the engine does not restart it. */
  async crash(service: string): Promise<void> {
    const id = (await this.run(`docker compose ps --quiet ${service}`)).trim();
    const pid = (await this.run(`docker inspect --format '{{.State.Pid}}' ${id}`)).trim();
    process.kill(Number(pid), "SIGKILL");
    const restarted = async (): Promise<boolean> => {
      const state = await this.run(
        `docker inspect --format '{{.State.Pid}} {{if .State.Health}}{{.State.Health.Status}}{{else}}healthy{{end}}' ${id}`,
      );
      return !state.startsWith(`${pid} `) && state.trim().endsWith(" healthy");
    };
    await eventually(restarted, `${service} to be healthy again`, 180_000);
  }

  /** Removes everything: containers, volumes, the clone. */
  async close(): Promise<void> {
    await this.try(
      `docker rm --force ${PROJECT}-receiver; docker compose --profile '*' down --volumes --remove-orphans`,
    );
    rmSync(this.directory, { recursive: true, force: true });
  }
}

function quote(line: string): string {
  return `'${line.replaceAll("'", String.raw`'\''`)}'`;
}

/** Returns the lines of a section's shell blocks in a document. */
export async function linesOf(document: string, contains: RegExp): Promise<readonly string[]> {
  return (await shellLines(document)).map(({ text }) => text).filter((text) => contains.test(text));
}
