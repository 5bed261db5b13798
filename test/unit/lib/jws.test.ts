import { generateKeyPairSync, sign, verify } from "node:crypto";
import { describe, expect, it, test } from "vitest";
import { signEs256, verifySignature } from "#lib/jws.ts";

const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
/** Node's own conversion, as the judge. */
const signing = { key: privateKey, dsaEncoding: "ieee-p1363" } as const;
const verifying = { key: publicKey, dsaEncoding: "ieee-p1363" } as const;
const bytes = Buffer.from("header.payload");

describe("ES256", () => {
  it("writes and reads what Node's conversion writes and reads, with zeros and high bits in front", () => {
    const firsts = new Set<number>();
    // One number in 256 begins with a zero.
    for (let round = 0; round < 3_000; round += 1) {
      const own = signEs256(bytes, privateKey);
      expect(own).toHaveLength(64);
      expect(verify("sha256", bytes, verifying, own)).toBe(true);
      const nodes = sign("sha256", bytes, signing);
      expect(verifySignature("ES256", bytes, publicKey, nodes)).toBe(true);
      firsts
        .add(own[0] as number)
        .add(own[32] as number)
        .add(nodes[0] as number);
    }
    expect(firsts.has(0) && [...firsts].some((first) => first >= 128)).toBe(true);
  });

  it("refuses a signature with any changed bit", () => {
    const good = signEs256(bytes, privateKey);
    for (let bit = 0; bit < 8 * good.length; bit += 1) {
      const changed = Buffer.from(good);
      changed[bit >> 3] = (changed[bit >> 3] as number) ^ (1 << (bit & 7));
      expect(verifySignature("ES256", bytes, publicKey, changed)).toBe(false);
    }
  });

  test.each([
    ["empty", Buffer.alloc(0)],
    ["all zeros", Buffer.alloc(64)],
    ["all ones", Buffer.alloc(64, 255)],
    ["63 bytes", signEs256(bytes, privateKey).subarray(1)],
    ["65 bytes", Buffer.concat([Buffer.alloc(1), signEs256(bytes, privateKey)])],
    ["DER", sign("sha256", bytes, privateKey)],
  ])("%s is no signature", (_kind, signature) => {
    expect(verifySignature("ES256", bytes, publicKey, signature)).toBe(false);
  });
});

test.each(["HS256", "none", "EdDSA", "es256", "toString", undefined, 7])("no key signs by %j", (alg) => {
  expect(verifySignature(alg, bytes, publicKey, signEs256(bytes, privateKey))).toBe(false);
});
