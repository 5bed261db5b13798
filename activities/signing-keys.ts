/** Activities of the `rotateSigningKeys` workflow. An api rotates the keys of access tokens, which no worker opens. */
import { rotateSigningKeys, type SigningKeyServices } from "#tokens/signing-keys/rotate.ts";
import type { SigningKeyActivities } from "./types.ts";

export function createSigningKeyActivities(services: SigningKeyServices): SigningKeyActivities {
  return {
    advanceSigningKeys: async () =>
      await rotateSigningKeys(services, "set", { actor: "system:rotateSigningKeys" }),
  };
}
