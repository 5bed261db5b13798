/** Judgements under changing authorities, and over time. */
import { X509Certificate } from "node:crypto";
import { expect, onTestFinished, test, vi } from "vitest";
import { createCertificateJudge } from "#http/mutual-tls/certificate-judge.ts";
import type { TrustAnchors } from "#http/mutual-tls/trust.ts";
import { authority, client, type Made, root } from "#test/support/made-certificates.ts";

const HOUR_MS = 3_600_000;
const open = ({ cert }: Made) => new X509Certificate(cert);
const anchorsOf = (...roots: readonly Made[]): TrustAnchors => ({
  pem: "",
  certificates: roots.map(open),
});
/** When the roots were made: a day after the beginning of their validity. */
const madeAt = (top: Made): number => Date.parse(open(top).validFrom) + 24 * HOUR_MS;
const presented = (leaf: Made, ...sent: readonly Made[]) => ({
  leaf: open(leaf),
  intermediates: sent.map(open),
  key: leaf.cert,
});

test("a verdict counts under the authorities that it was made under, and is made once under them", async () => {
  const [first, second] = [await root(), await root()];
  let anchors = anchorsOf(first);
  const judge = createCertificateJudge(() => anchors, { now: () => madeAt(first) });
  const leaf = presented(await client(first));
  expect(judge(leaf)).toMatchObject({ chain: [leaf.leaf, expect.anything()] });
  const verify = vi.spyOn(X509Certificate.prototype, "verify");
  onTestFinished(() => verify.mockRestore());
  const known = judge(leaf);
  // Of another connection, or another header.
  expect(judge({ ...leaf })).toBe(known);
  expect(verify).not.toHaveBeenCalled();
  anchors = anchorsOf(second);
  expect([judge(leaf), judge({ ...leaf })]).toEqual(["not trusted", "not trusted"]);
  anchors = anchorsOf(second, first);
  expect(judge(leaf)).toMatchObject({ chain: [leaf.leaf, expect.anything()] });
});

test("a certificate is valid as long as one of its paths is", async () => {
  const top = await root();
  const old = await authority(top, { days: [-30, 1] });
  const renewed = await authority(top, { key: old, days: [-1, 10] });
  let nowMs = 0;
  const judge = createCertificateJudge(() => anchorsOfTop, { now: () => nowMs });
  const anchorsOfTop = anchorsOf(top);
  const leaf = presented(await client(old, { days: [-1, 20] }), old, renewed);
  const issuerAfter = (hours: number): unknown => {
    nowMs = madeAt(top) + hours * HOUR_MS;
    const found = judge(leaf);
    return typeof found === "string" ? found : found.chain[1]?.serialNumber;
  };
  expect([0, 36, 24 * 11, 36, 0].map(issuerAfter)).toEqual([
    open(old).serialNumber,
    open(renewed).serialNumber,
    "expired",
    open(renewed).serialNumber,
    open(old).serialNumber,
  ]);
});

test("without authorities, no certificate is trusted, and none is missing", async () => {
  const judge = createCertificateJudge(() => undefined, { now: () => 0 });
  expect(judge(presented(await client(await root())))).toBe("not trusted");
  expect(judge(undefined)).toBe("missing");
});
