import { randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  CLIENT_SECRET_PATTERN,
  isClientId,
  isClientSecret,
  newClientId,
  newClientSecret,
} from "#tokens/credentials/secret-format.ts";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

test("a production secret says live, any other says test, and both match the published pattern", () => {
  const live = newClientSecret("production", randomBytes);
  const trial = newClientSecret("development", randomBytes);
  expect(live).toMatch(/^sgn_live_sk_[0-9A-Za-z]{49}$/);
  expect(trial).toMatch(/^sgn_test_sk_[0-9A-Za-z]{49}$/);
  expect(live).toMatch(new RegExp(CLIENT_SECRET_PATTERN));
  expect([live, trial].every(isClientSecret)).toBe(true);
});

test("the last six characters are the CRC-32 of all before them", () => {
  const secret = newClientSecret("production", randomBytes);
  const digits = Array.from(secret.slice(-6)).map((character) => BASE62.indexOf(character));
  expect(digits.reduce((value, digit) => value * 62 + digit, 0)).toBe(crc32(secret.slice(0, -6)));
});

test("any changed character is detected", () => {
  const secret = newClientSecret("production", randomBytes);
  fc.assert(
    fc.property(
      fc.integer({ min: "sgn_live_sk_".length, max: secret.length - 1 }),
      fc.constantFrom(...Array.from(BASE62)),
      (index, character) => {
        fc.pre(secret[index] !== character);
        expect(isClientSecret(secret.slice(0, index) + character + secret.slice(index + 1))).toBe(false);
      },
    ),
  );
});

test.each(["", "sgn_live_sk_", "sgn_prod_sk_", `sgn_live_sk_${"0".repeat(49)}`, "s3cret", "sgn_live_sk_\0"])(
  "%j is not a secret",
  (text) => {
    expect(isClientSecret(text)).toBe(false);
  },
);

test("biased random bytes are discarded", () => {
  let calls = 0;
  const source = (size: number): Uint8Array => {
    calls += 1;
    return calls === 1 ? new Uint8Array(size).fill(255) : new Uint8Array(size).fill(61);
  };
  expect(newClientId(source)).toBe(`cl_${"z".repeat(24)}`);
  expect(calls).toBe(2);
});

test("client ids have 24 random characters and are distinguished from other texts", () => {
  expect(isClientId(newClientId(randomBytes))).toBe(true);
  expect(isClientId("cl_short")).toBe(false);
  expect(isClientId(`cl_${"a".repeat(24)}\n`)).toBe(false);
});
