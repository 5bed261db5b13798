/**
 * The documented receivers in other languages return the expected result of each shared vector.
 * test/unit/lib/receiver/vectors.test.ts has our own library.
 */
import { execFile, spawnSync } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { skipUnless } from "../support/skips.ts";
import { webhookSignatures } from "../vectors/cases.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..");
const TOOLCHAIN_MS = 300_000;
const run = promisify(execFile);
const { vectors } = webhookSignatures();

/** Returns whether a toolchain is missing. */
function lacks(program: string, argument: string): boolean {
  const found = spawnSync(program, [argument]).status === 0;
  return skipUnless(found, `the vectors with the receiver for ${program}`, `${program} is not on PATH`);
}

it.skipIf(lacks("python3", "--version"))(
  "the Python example returns the expected results",
  async () => {
    const { stdout } = await run("python3", ["test/vectors/check.py"], { cwd: REPOSITORY });
    const hmac = vectors.filter(({ algorithm }) => algorithm === undefined);
    expect(stdout).toBe(`${hmac.length} vectors, 0 wrong\n`);
  },
  TOOLCHAIN_MS,
);

it.skipIf(lacks("go", "version"))(
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
