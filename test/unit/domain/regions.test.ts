import { expect, test } from "vitest";
import type { SignetError } from "#domain/errors.ts";
import { type Cells, requireOwnCell } from "#domain/regions.ts";

const [eu, us, usWest, ap] = ["eu", "us", "us-west-1", "ap"].map((region) => ({
  region,
  url: `https://${region}.example.com`,
})) as [Cells["home"], Cells["home"], Cells["home"], Cells["home"]];

/** Returns the cell that a request to `own` is sent to; `own` itself if it serves the request. */
function servedBy(own: Cells["home"], token: string, tenant?: string): unknown {
  try {
    requireOwnCell({ home: eu, own, all: [eu, us, usWest] }, token, tenant);
    return own.region;
  } catch (error) {
    const { code, extensions } = error as SignetError;
    return code === "MISDIRECTED_REQUEST" ? extensions["region"] : error;
  }
}

test.each([
  ["eu", undefined, "eu"],
  ["eu-west-1", undefined, "eu"],
  ["us", undefined, "us"],
  ["us-west-1", undefined, "us-west-1"],
  ["us-east-2", undefined, "us"],
  [ap.region, undefined, "eu"],
  // The token's region decides, whatever its tenant's.
  ["us", "eu", "us"],
  ["global", "us-east-2", "us"],
  ["global", "ap", "eu"],
])("a token for %s of a tenant of %s belongs to the cell %s", (token, tenant, cell) => {
  for (const own of [eu, us, usWest]) {
    expect(servedBy(own, token, tenant)).toBe(cell);
  }
});

test("without any region, every cell serves a token", () => {
  for (const own of [eu, us]) {
    expect(servedBy(own, "global", "global")).toBe(own.region);
    expect(servedBy(own, "global")).toBe(own.region);
  }
});
