/** Our library gives the expected result for each of the shared vectors. */
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { VerificationError } from "#lib/receiver/errors.ts";
import { verify } from "#lib/receiver/verify.ts";
import { webhookSignatures } from "#test/vectors/cases.ts";
import type { RefusalCode, Vector } from "#test/vectors/draft.ts";
import schema from "#test/vectors/webhook-signatures.schema.json" with { type: "json" };
import written from "#test/vectors/webhook-signatures.json" with { type: "json" };

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
      // The other codes are of receivers.
      return { result: "refused", code: error.code as RefusalCode };
    }
    if (error instanceof TypeError) {
      return { result: "misconfigured" };
    }
    throw error;
  }
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

it.each(file.vectors)("the expected result is returned: $name", (vector) => {
  expect(outcome(vector)).toEqual(vector.expect);
});
