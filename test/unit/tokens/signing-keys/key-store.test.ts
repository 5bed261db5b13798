/** A process without keys knows nothing about a token, and does not call it invalid. */
import { expect, test } from "vitest";
import { createLogger } from "../../../../src/observability/logger.ts";
import { openKeyStore } from "../../../../src/tokens/signing-keys/key-store.ts";

test("a token cannot be checked before the first keys are known", async () => {
  const store = await openKeyStore({
    read: async () => await Promise.resolve([]),
    clock: { now: () => 0 },
    log: createLogger({ level: "silent" }),
  });
  await expect(async () => await store.verificationKey("some")).rejects.toMatchObject({
    code: "UNAVAILABLE",
  });
  store.close();
});
