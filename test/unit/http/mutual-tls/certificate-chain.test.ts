import { X509Certificate } from "node:crypto";
import { property, assert as hold, uint8Array } from "fast-check";
import { beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import type { Authority } from "#http/mutual-tls/authority.ts";
import { findPaths, leafProblem, pathProblem, timeProblem } from "#http/mutual-tls/certificate-chain.ts";
import { certificateExtensions, pathLengthOf } from "#http/mutual-tls/der.ts";
import { isWeakCertificate } from "#http/mutual-tls/certificate-strength.ts";
import { readTrustAnchors } from "#http/mutual-tls/trust.ts";
import { certificateFiles, clientPair, newRoot, today } from "#test/support/certificates.ts";
import { CLIENT_AUTH, make } from "#test/support/made-certificates.ts";
import { issueWith, selfSigned, type WeakRequest } from "#test/support/weak-certificates.ts";

const open = ({ cert }: { readonly cert: string }) => new X509Certificate(cert);

let root: Authority;
let middle: Authority;
let low: Authority;

beforeAll(async () => {
  root = await newRoot("Root");
  middle = await root.issueAuthority({ subject: "CN=Middle", ...today() });
  low = await middle.issueAuthority({ subject: "CN=Low", ...today() });
});

type Cert = { readonly cert: string };

/** The authorities of the first path without a problem. */
function chainOf(leaf: Cert, intermediates: readonly Cert[], anchors: readonly Cert[] = [root]) {
  const opened = open(leaf);
  return findPaths({
    leaf: opened,
    intermediates: intermediates.map(open),
    anchors: anchors.map(open),
  }).find((issuers) => pathProblem(opened, issuers) === undefined);
}

describe("a chain", () => {
  test("leads from the leaf over the sent certificates to an anchor", async () => {
    const leaf = await clientPair(low);
    expect(chainOf(leaf, [middle, low])?.map(({ subject }) => subject)).toEqual([
      "CN=Low",
      "CN=Middle",
      "CN=Root",
    ]);
    expect(chainOf(leaf, [low])).toBeUndefined();
    expect(chainOf(leaf, [])).toBeUndefined();
  });

  test("needs valid signatures: a rogue root and a rogue intermediate of the same names are rejected", async () => {
    const rogue = await newRoot("Root");
    const rogueMiddle = await rogue.issueAuthority({ subject: "CN=Middle", ...today() });
    expect(chainOf(await clientPair(rogue), [])).toBeUndefined();
    expect(chainOf(await clientPair(rogueMiddle), [middle, rogueMiddle])).toBeUndefined();
    expect(chainOf(await clientPair(middle), [rogueMiddle, middle])).toHaveLength(2);
  });

  test("ends when the authorities form a cycle", async () => {
    const leaf = await clientPair(low);
    expect(chainOf(leaf, [low, middle, low, middle], [await newRoot("Another")])).toBeUndefined();
  });

  test("respects the path lengths of its authorities", async () => {
    const short = await root.issueAuthority({
      subject: "CN=Short",
      ...today(),
      authority: { pathLength: 0 },
    });
    const below = await short.issueAuthority({ subject: "CN=Below", ...today() });
    expect(chainOf(await clientPair(short), [short])).toHaveLength(2);
    expect(chainOf(await clientPair(below), [below, short])).toBeUndefined();
  });

  test("cannot have a leaf as an issuer", async () => {
    const pretender = await root.issueAuthority({ subject: "CN=Pretender", ...today() });
    const leaf = await clientPair(root, { subject: "CN=Pretender" });
    const below = await clientPair(pretender);
    expect(chainOf(below, [leaf])).toBeUndefined();
  });

  test("is searched with at most 50 checks of signatures, however many authorities have one name", async () => {
    const authority = { subject: "CN=Namesake", ca: true, keyIds: false };
    const namesakes = await Promise.all(Array.from({ length: 150 }, async () => await make(authority)));
    const leaf = await make({ subject: "CN=client", keyIds: false }, namesakes.at(-1));
    const verify = vi.spyOn(X509Certificate.prototype, "verify");
    onTestFinished(() => verify.mockRestore());
    expect(chainOf(leaf, [], namesakes)).toBeUndefined();
    expect(verify.mock.calls).toHaveLength(50);
  });

  test("is searched among few paths, however authorities sign each other", async () => {
    const authority = { subject: "CN=Each Other", ca: true, keyIds: false };
    const roots = await Promise.all([1, 2, 3].map(async () => await make(authority)));
    const crossed = await Promise.all(
      roots.flatMap((key) =>
        roots
          .filter((issuer) => issuer !== key)
          .map(async (issuer) => await make({ ...authority, key }, issuer)),
      ),
    );
    const leaf = await make({ subject: "CN=client", keyIds: false }, roots[0]);
    const paths = findPaths({
      leaf: open(leaf),
      intermediates: crossed.map(open),
      anchors: roots.map(open),
    });
    expect(paths.length).toBe(16);
  });

  test("has at most four authorities between leaf and root", async () => {
    const levels = [await make({ subject: "CN=Level 0", ca: true })];
    for (let level = 1; level <= 5; level += 1) {
      levels.unshift(await make({ subject: `CN=Level ${level}`, ca: true }, levels[0]));
    }
    const [fifth, fourth, ...rest] = levels;
    const recipe = { subject: "CN=client", purposes: [CLIENT_AUTH] };
    expect(chainOf(await make(recipe, fourth), levels, levels.slice(-1))).toHaveLength(5);
    expect(chainOf(await make(recipe, fifth), levels, rest.slice(-1))).toBeUndefined();
  });
});

test("a client certificate has the client purpose and is not an authority", async () => {
  expect(leafProblem(open(await clientPair(root)))).toBeUndefined();
  expect(
    leafProblem(open(await clientPair(root, { purposes: ["clientAuth", "serverAuth"] }))),
  ).toBeUndefined();
  expect(leafProblem(open(await clientPair(root, { purposes: ["serverAuth"] })))).toBe("wrong purpose");
  const authority = await root.issueAuthority({ subject: "CN=A", purposes: ["clientAuth"], ...today() });
  expect(leafProblem(open(authority))).toBe("wrong purpose");
});

test("a certificate is valid at both ends of its period", () => {
  const times = { notBefore: 10, notAfter: 20 };
  expect([9, 10, 20, 21].map((nowMs) => timeProblem(times, nowMs))).toEqual([
    "not valid yet",
    undefined,
    undefined,
    "expired",
  ]);
});

/** Returns what parsing the bytes throws, or a RangeError if they parse. */
function thrownBy(bytes: Buffer): unknown {
  try {
    certificateExtensions(bytes);
    return new RangeError("none");
  } catch (error) {
    return error;
  }
}

describe("DER", () => {
  test("extensions are parsed as openssl shows them", async () => {
    const found = certificateExtensions(open(await clientPair(root, { sanUri: "spiffe://a/b" })).raw);
    expect(found.map(({ oid, critical }) => [oid, critical])).toEqual([
      ["2.5.29.19", true],
      ["2.5.29.15", true],
      ["2.5.29.14", false],
      ["2.5.29.35", false],
      ["2.5.29.37", false],
      ["2.5.29.17", false],
    ]);
    expect(pathLengthOf(Buffer.from("30060101ff020105", "hex"))).toBe(5);
    expect(pathLengthOf(Buffer.from("30030101ff", "hex"))).toBe(Infinity);
  });

  test("invalid input throws a RangeError, nothing else, and never loops", () => {
    hold(
      property(uint8Array({ maxLength: 200 }), (bytes) => thrownBy(Buffer.from(bytes)) instanceof RangeError),
    );
  });
});

describe("strength", () => {
  const problemOf = async (request: WeakRequest) => leafProblem(open(await issueWith(root, request)));

  test.each([
    ["RSA-1024", "too weak"],
    ["RSA-2048", undefined],
    ["P-256", undefined],
    ["P-384", undefined],
    ["P-521", undefined],
    ["Ed25519", undefined],
  ] as const)("of a key with %s: %s", async (key, problem) => {
    expect(await problemOf({ key })).toBe(problem);
  });

  test("of a SHA-1 signature: too weak, even by an intermediate", async () => {
    expect(await problemOf({ hash: "SHA-1" })).toBe("too weak");
    const weak = await issueWith(root, { hash: "SHA-1", subject: "CN=Weak", authority: true });
    const leaf = await issueWith({ ...weak, subject: "CN=Weak" }, {});
    expect(chainOf(leaf, [weak])).toBeUndefined();
  });

  test.each([
    ["RSASSA-PKCS1-v1_5", "SHA-1", true],
    ["RSASSA-PKCS1-v1_5", "SHA-512", false],
    ["RSA-PSS", "SHA-1", true],
    ["RSA-PSS", "SHA-256", false],
  ] as const)("of a signature by %s with %s: too weak is %s", async (name, hash, weak) => {
    expect(isWeakCertificate(open({ cert: await selfSigned(name, hash) }))).toBe(weak);
  });

  // Nothing here creates such signatures: overwrite the name of the algorithm.
  test.each([
    ["MD2", "02"],
    ["MD5", "04"],
    ["SHA-224", "0e"],
  ])("of a signature with %s: too weak", async (_digest, last) => {
    const { raw } = open({ cert: await selfSigned("RSASSA-PKCS1-v1_5", "SHA-256") });
    const der = raw.toString("hex").replaceAll("2a864886f70d01010b", `2a864886f70d0101${last}`);
    expect(der).not.toBe(raw.toString("hex"));
    expect(isWeakCertificate(new X509Certificate(Buffer.from(der, "hex")))).toBe(true);
  });

  test("of a trusted authority: rejected when its file is loaded", async () => {
    const files = certificateFiles();
    try {
      const good = files.write("good.crt", root.cert);
      const weak = files.write("weak.crt", root.cert + (await selfSigned("RSASSA-PKCS1-v1_5", "SHA-1")));
      const development = { development: true };
      expect((await readTrustAnchors(good, development)).certificates).toHaveLength(1);
      await expect(readTrustAnchors(weak, development)).rejects.toThrow(/too weak \(CN=self\)/);
    } finally {
      files.remove();
    }
  });
});
