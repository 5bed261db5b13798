import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { EnvelopeError } from "../../../src/crypto/envelope.ts";
import { createKeyring } from "../../../src/crypto/keyring.ts";

const kek = randomBytes(32);
const keyring = createKeyring({ kek, randomBytes });

test("a tenant's value opens with that tenant's data key only", () => {
  const first = keyring.newTenantDataKey("ten_a");
  const second = keyring.newTenantDataKey("ten_b");
  const envelope = keyring.sealForTenant(first, "ten_a", "place", "whsec_x");
  expect(keyring.openForTenant(first, "ten_a", "place", envelope).toString()).toBe("whsec_x");
  expect(() => keyring.openForTenant(second, "ten_b", "place", envelope)).toThrow(EnvelopeError);
});

test("a data key moved to another tenant's row does not open", () => {
  const wrapped = keyring.newTenantDataKey("ten_a");
  expect(() => keyring.sealForTenant(wrapped, "ten_b", "place", "x")).toThrow(EnvelopeError);
  // Neither before nor after the rightful tenant has used it.
  keyring.sealForTenant(wrapped, "ten_a", "place", "x");
  expect(() => keyring.sealForTenant(wrapped, "ten_b", "place", "x")).toThrow(EnvelopeError);
});

test("another process with the same key-encryption key opens what this one sealed", () => {
  const wrapped = keyring.newTenantDataKey("ten_a");
  const envelope = keyring.sealForTenant(wrapped, "ten_a", "place", "x");
  const sealed = keyring.sealWithKek("signing_keys||kid|1", "private");
  const other = createKeyring({ kek, randomBytes });
  expect(other.openForTenant(wrapped, "ten_a", "place", envelope).toString()).toBe("x");
  expect(other.openWithKek("signing_keys||kid|1", sealed).toString()).toBe("private");
});

test("nothing opens with another key-encryption key", () => {
  const other = createKeyring({ kek: randomBytes(32), randomBytes });
  expect(() => other.openWithKek("a", keyring.sealWithKek("a", "x"))).toThrow(EnvelopeError);
  expect(() => other.sealForTenant(keyring.newTenantDataKey("ten_a"), "ten_a", "a", "x")).toThrow(
    EnvelopeError,
  );
});

test("keys that fell out of the cache are unwrapped again", () => {
  const wrapped = keyring.newTenantDataKey("ten_a");
  const envelope = keyring.sealForTenant(wrapped, "ten_a", "place", "x");
  for (let index = 0; index < 1_100; index += 1) {
    const tenant = `ten_${index}`;
    keyring.sealForTenant(keyring.newTenantDataKey(tenant), tenant, "place", "y");
  }
  expect(keyring.openForTenant(wrapped, "ten_a", "place", envelope).toString()).toBe("x");
});
