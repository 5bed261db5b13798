/**
 * The documented receivers in other languages return the expected result of each shared vector, and those that the
 * portal shows accept and reject what they should.
 * test/unit/lib/receiver/vectors.test.ts has our own library.
 */
import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { generateSecret } from "#lib/receiver/secret.ts";
import { receiverCode } from "#portal/pages/endpoint/receiver-code.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { lacks } from "../support/skips.ts";
import { webhookSignatures } from "../vectors/cases.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..");
const TOOLCHAIN_MS = 300_000;
const run = promisify(execFile);
const { vectors } = webhookSignatures();

it.skipIf(lacks("the Python example", "python3 --version"))(
  "the Python example returns the expected results",
  async () => {
    const { stdout } = await run("python3", ["test/vectors/check.py"], { cwd: REPOSITORY });
    const hmac = vectors.filter(({ algorithm }) => algorithm === undefined);
    expect(stdout).toBe(`${hmac.length} vectors, 0 wrong\n`);
  },
  TOOLCHAIN_MS,
);

it.skipIf(lacks("the Go example", "go version"))(
  "the Go example returns the expected results",
  async () => {
    const cwd = join(REPOSITORY, "docs", "examples", "go");
    const { stdout } = await run("go", ["test", "-count=1", "-v", "./..."], {
      cwd,
      env: { ...process.env, GOFLAGS: "-mod=mod", GOTOOLCHAIN: "local", GOPROXY: "off" },
    });
    expect(stdout).toContain(`${vectors.length} vectors`);
    expect(stdout).toContain("PASS: TestVectors");
  },
  TOOLCHAIN_MS,
);

/** Runs the request that the portal shows, and returns the status of the answer; 0 without an answer. */
async function curl(url: string, secret: string): Promise<number> {
  const command = receiverCode({ url, secret })["curl"] ?? "";
  const { stdout } = await run("sh", ["-c", command]).catch(() => ({ stdout: "" }));
  return Number(/^HTTP\/[\d.]+ (\d+)/.exec(stdout)?.[1] ?? 0);
}

const RECEIVERS = [
  { key: "node", file: "receiver.mjs", command: "node", version: "--version", before: [] },
  { key: "python", file: "receiver.py", command: "python3", version: "--version", before: [] },
  { key: "go", file: "receiver.go", command: "go", version: "version", before: ["run"] },
] as const;

for (const { key, file, command, version, before } of RECEIVERS) {
  const probes = [`${command} ${version}`, "curl --version", "openssl version"];
  it.skipIf(probes.some((probe) => lacks(`the portal's receiver for ${key}`, probe)))(
    `the receiver for ${key} in the portal accepts its endpoint's requests, and no others`,
    async () => {
      const directory = await mkdtemp(join(tmpdir(), "signet-receiver-"));
      const secret = generateSecret(randomBytes);
      const port = await freePort();
      const url = `http://127.0.0.1:${port}/a'b`;
      const code = receiverCode({ url, secret })[key] ?? "";
      await writeFile(join(directory, file), code.replaceAll("3000", String(port)));
      // A group of its own, because `go run` starts the program as a child.
      const receiver = spawn(command, [...before, file], {
        cwd: directory,
        detached: true,
        stdio: "ignore",
        env: { ...process.env, GOTOOLCHAIN: "local", GOPROXY: "off" },
      });
      try {
        await eventually(
          async () => (await curl(url, secret)) === 200,
          "the receiver's answer",
          TOOLCHAIN_MS / 2,
        );
        expect(await curl(url, generateSecret(randomBytes))).toBe(401);
      } finally {
        process.kill(-(receiver.pid ?? 0), "SIGKILL");
        await rm(directory, { recursive: true, force: true });
      }
    },
    TOOLCHAIN_MS,
  );
}
