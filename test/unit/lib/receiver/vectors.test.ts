/** Every documented implementation gives the same result for each of the shared vectors. */
import { execFile, spawnSync } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { VerificationError } from "../../../../src/lib/receiver/errors.ts";
import { verify } from "../../../../src/lib/receiver/verify.ts";
import { type Vector, webhookSignatures } from "../../../vectors/cases.ts";
import schema from "../../../vectors/webhook-signatures.schema.json" with { type: "json" };
import written from "../../../vectors/webhook-signatures.json" with { type: "json" };

const REPOSITORY = join(import.meta.dirname, "..", "..", "..", "..");
const TOOLCHAIN_MS = 300_000;
const run = promisify(execFile);
const file = webhookSignatures();

/** Returns repeated headers as Node does. */
function headersOf(vector: Vector): Record<string, string[]> {
  const headers: Record<string, string[]> = {};
  for (const [name, value] of vector.headers) {
    (headers[name] ??= []).push(value);
  }
  return headers;
}

function outcome(vector: Vector): Vector["expect"] {
  try {
    const { id, scheme } = verify({
      rawBody: Buffer.from(vector.body_base64, "base64"),
      headers: headersOf(vector),
      secrets: vector.secrets,
      now: vector.now_seconds * 1_000,
      toleranceSeconds: file.tolerance_seconds,
      futureSeconds: file.future_seconds,
    });
    return { result: "accepted", id, scheme };
  } catch (error) {
    if (error instanceof VerificationError) {
      return { result: "refused", code: error.code };
    }
    if (error instanceof TypeError) {
      return { result: "misconfigured" };
    }
    throw error;
  }
}

/** Returns true if a toolchain is installed. Prints a note if it is not, since its checks are then skipped. */
function has(program: string, argument: string): boolean {
  const found = spawnSync(program, [argument]).status === 0;
  if (!found) {
    console.warn(`SKIPPED: no ${program} here, so its receiver is not held to the vectors`);
  }
  return found;
}

describe("the vectors", () => {
  it("match their generator: run test/vectors/run-generator.ts when this fails", () => {
    expect(written).toEqual(file);
  });

  it("match their schema", () => {
    const validate = new Ajv2020({ strict: true, allowUnionTypes: true }).compile(schema);
    expect(validate(written), JSON.stringify(validate.errors)).toBe(true);
  });

  it("have different names and cover every reason for a rejection", () => {
    expect(new Set(file.vectors.map(({ name }) => name)).size).toBe(file.vectors.length);
    const codes = file.vectors.map(({ expect: e }) => (e.result === "refused" ? e.code : e.result));
    expect([...new Set(codes)].toSorted()).toEqual([
      "HEADERS_MALFORMED",
      "ID_MISMATCH",
      "PAYLOAD_EXPIRED",
      "SIGNATURE_INVALID",
      "TIMESTAMP_MISMATCH",
      "accepted",
      "misconfigured",
    ]);
  });
});

describe("the expected results of the vectors are returned", () => {
  it.each(file.vectors)("by our library: $name", (vector) => {
    expect(outcome(vector)).toEqual(vector.expect);
  });

  it.skipIf(!has("python3", "--version"))(
    "by the Python example",
    async () => {
      const { stdout } = await run("python3", ["test/vectors/check.py"], { cwd: REPOSITORY });
      const hmac = file.vectors.filter(({ algorithm }) => algorithm === undefined);
      expect(stdout).toBe(`${hmac.length} vectors, 0 wrong\n`);
    },
    TOOLCHAIN_MS,
  );

  it.skipIf(!has("go", "version"))(
    "by the Go example",
    async () => {
      const cwd = join(REPOSITORY, "docs", "examples", "go");
      const { stdout } = await run("go", ["test", "-count=1", "-v", "./..."], {
        cwd,
        env: { ...process.env, GOFLAGS: "-mod=mod", GOTOOLCHAIN: "local", GOPROXY: "off" },
      });
      expect(stdout).toContain(`${file.vectors.length} vectors`);
      expect(stdout).toContain("PASS: TestVectors");
    },
    TOOLCHAIN_MS,
  );
});
