/** Only the holder of the previous secret can read a successor. */
import { createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { newClientSecret } from "#tokens/credentials/secret-format.ts";
import { unwrapSuccessor, wrapSuccessor } from "#tokens/credentials/successor.ts";
import { Pepper } from "#crypto/pepper.ts";

const pepperKey = randomBytes(32);
const pepper = new Pepper(pepperKey);
const place = { credential_id: "crd_06gzm2fznbyb0z2y2dpag6wd", version: 7 };
const predecessor = newClientSecret("production", randomBytes);
const successor = newClientSecret("production", randomBytes);
const wrapped = wrapSuccessor(place, { predecessor, successor }, pepper, randomBytes);

test("the previous secret opens a successor", () => {
  expect(unwrapSuccessor(place, predecessor, wrapped, pepper)).toBe(successor);
});

test("a successor is AES-256-GCM under HKDF-SHA-256 of the previous secret, salted with the pepper, bound to its place", () => {
  const [version, pepperId, ...parts] = wrapped.split(".");
  const [iv, tag, ciphertext] = parts.map((part) => Buffer.from(part, "base64url"));
  expect([version, pepperId]).toEqual(["v1", pepper.id]);
  const key = hkdfSync("sha256", predecessor, pepperKey, `succ|${place.credential_id}|7`, 32);
  const cipher = createDecipheriv("aes-256-gcm", Buffer.from(key), iv ?? Buffer.of());
  cipher.setAAD(Buffer.from(`${place.credential_id}|7`)).setAuthTag(tag ?? Buffer.of());
  const text = Buffer.concat([cipher.update(ciphertext ?? Buffer.of()), cipher.final()]).toString();
  expect(text).toBe(successor);
});

describe("a successor stays closed", () => {
  test.each([
    ["to another secret", { secret: newClientSecret("production", randomBytes) }],
    ["to the successor itself", { secret: successor }],
    ["in another version's place", { at: { ...place, version: 8 } }],
    ["in another credential's place", { at: { ...place, credential_id: "crd_06gzm2fznbyb0z2y2dpag6we" } }],
    ["without its pepper", { with: new Pepper(randomBytes(32)) }],
  ])("%s", (_name, { secret = predecessor, at = place, with: known = pepper }: Partial<Attempt>) => {
    expect(() => unwrapSuccessor(at, secret, wrapped, known)).toThrow(
      expect.objectContaining({ name: "EnvelopeError" }),
    );
  });
});

interface Attempt {
  readonly secret: string;
  readonly at: typeof place;
  readonly with: typeof pepper;
}

test("a successor opens after a change of pepper as long as the old one is known", () => {
  const changed = new Pepper(randomBytes(32), [pepperKey]);
  expect(unwrapSuccessor(place, predecessor, wrapped, changed)).toBe(successor);
});
