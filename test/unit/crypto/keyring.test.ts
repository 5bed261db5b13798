import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { EnvelopeError } from "#crypto/envelope.ts";
import { KeyServiceError } from "#crypto/key-service.ts";
import { Keyring } from "#crypto/keyring.ts";
import { testKeyring } from "#test/support/keyring.ts";

const kek = randomBytes(32);
const keyring = testKeyring(kek);

test("only a tenant's own data key opens its values", async () => {
  const first = await keyring.newTenantDataKey("ten_a");
  const second = await keyring.newTenantDataKey("ten_b");
  const envelope = await keyring.sealForTenant(first, "ten_a", "place", "whsec_x");
  expect((await keyring.openForTenant(first, "ten_a", "place", envelope)).toString()).toBe("whsec_x");
  await expect(keyring.openForTenant(second, "ten_b", "place", envelope)).rejects.toThrow(EnvelopeError);
});

test("a data key moved to another tenant's row does not open", async () => {
  const wrapped = await keyring.newTenantDataKey("ten_a");
  await expect(keyring.sealForTenant(wrapped, "ten_b", "place", "x")).rejects.toThrow(EnvelopeError);
  // It fails both before and after the owning tenant has used the key.
  await keyring.sealForTenant(wrapped, "ten_a", "place", "x");
  await expect(keyring.sealForTenant(wrapped, "ten_b", "place", "x")).rejects.toThrow(EnvelopeError);
});

test("another process with the same key-encryption key opens the value", async () => {
  const wrapped = await keyring.newTenantDataKey("ten_a");
  const envelope = await keyring.sealForTenant(wrapped, "ten_a", "place", "x");
  const sealed = await keyring.sealWithKek("signing_keys||kid|1", "private");
  const other = testKeyring(kek);
  expect((await other.openForTenant(wrapped, "ten_a", "place", envelope)).toString()).toBe("x");
  expect((await other.openWithKek("signing_keys||kid|1", sealed)).toString()).toBe("private");
});

test("nothing opens with another key-encryption key", async () => {
  const other = testKeyring();
  const sealed = await keyring.sealWithKek("a", "x");
  await expect(other.openWithKek("a", sealed)).rejects.toThrow(EnvelopeError);
  const wrapped = await keyring.newTenantDataKey("ten_a");
  await expect(other.sealForTenant(wrapped, "ten_a", "a", "x")).rejects.toThrow(EnvelopeError);
});

test("at most 10,000 data keys are kept; an evicted one is unwrapped again", async () => {
  const dataKey = randomBytes(32);
  let unwraps = 0;
  const counted = new Keyring({
    keyEncryption: {
      currentKeyId: async () => "kms",
      wrap: async () => "kms1.kms.blob",
      unwrap: async () => {
        unwraps += 1;
        return dataKey;
      },
    },
    randomBytes,
    monotonicMs: () => 0,
  });
  const use = async (tenant: number) => await counted.contentRoot("kms1.kms.blob", `ten_${tenant}`);
  for (let tenant = 0; tenant < 10_000; tenant += 1) {
    await use(tenant);
  }
  await use(0);
  expect(unwraps).toBe(10_000);
  // The second one has now been unused for longest.
  await use(10_000);
  await use(0);
  expect(unwraps).toBe(10_001);
  await use(1);
  expect(unwraps).toBe(10_002);
});

test("concurrent requests unwrap a data key once, and a failed unwrap is tried again", async () => {
  const dataKey = randomBytes(32);
  let calls = 0;
  let reachable = false;
  const remote = new Keyring({
    keyEncryption: {
      currentKeyId: async () => "kms",
      wrap: async () => "kms1.kms.blob",
      unwrap: async () => {
        calls += 1;
        return reachable ? dataKey : await Promise.reject(new Error("key service out of reach"));
      },
    },
    randomBytes,
    monotonicMs: () => 0,
  });
  const seal = async () => await remote.sealForTenant("kms1.kms.blob", "ten_a", "place", "x");
  await expect(seal()).rejects.toThrow("out of reach");
  reachable = true;
  const envelopes = await Promise.all(Array.from({ length: 20 }, seal));
  expect(calls).toBe(2);
  expect((await remote.openForTenant("kms1.kms.blob", "ten_a", "place", envelopes[7] ?? "")).toString()).toBe(
    "x",
  );
});

describe("a cached data key", () => {
  const HOUR_MS = 3_600_000;

  async function cached() {
    let clockMs = 0;
    let unwraps = 0;
    let failure: Error | undefined;
    const dataKey = randomBytes(32);
    const keyring = new Keyring({
      keyEncryption: {
        currentKeyId: async () => "kms",
        wrap: async () => "kms1.kms.blob",
        unwrap: async () => {
          unwraps += 1;
          return failure === undefined ? dataKey : await Promise.reject(failure);
        },
      },
      randomBytes,
      monotonicMs: () => clockMs,
    });
    return {
      use: async () => {
        const used = await keyring.sealForTenant("kms1.kms.blob", "ten_a", "place", "x").then(
          () => "used",
          () => "failed",
        );
        // Lets the attempt in the background end.
        await new Promise((resolve) => setImmediate(resolve));
        return used;
      },
      unwraps: () => unwraps,
      at: (ms: number) => (clockMs = ms),
      fail: (error: Error | undefined) => (failure = error),
    };
  }

  const silent = new KeyServiceError(new Error("no answer"), false);

  test("is unwrapped again after an hour, while the old one serves", async () => {
    const { use, unwraps, at } = await cached();
    await use();
    at(HOUR_MS - 1);
    await use();
    expect(unwraps()).toBe(1);
    at(HOUR_MS);
    expect(await use()).toBe("used");
    await use();
    expect(unwraps()).toBe(2);
  });

  test("serves for 12 hours if the service does not answer, asked once a minute", async () => {
    const { use, unwraps, at, fail } = await cached();
    await use();
    fail(silent);
    at(HOUR_MS);
    await use();
    await use();
    expect(unwraps()).toBe(2);
    at(HOUR_MS + 60_000);
    await use();
    expect(unwraps()).toBe(3);
    at(12 * HOUR_MS - 1);
    expect(await use()).toBe("used");
    at(12 * HOUR_MS);
    expect(await use()).toBe("failed");
    fail(undefined);
    expect(await use()).toBe("used");
  });

  test.each([
    ["refuses the key", new KeyServiceError(new Error("disabled"), true)],
    ["cannot decrypt it", new EnvelopeError("changed")],
  ])("is forgotten once the service %s", async (_what, error) => {
    const { use, at, fail } = await cached();
    await use();
    fail(error);
    expect(await use()).toBe("used");
    at(HOUR_MS);
    await use();
    expect(await use()).toBe("failed");
  });
});
