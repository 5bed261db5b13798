/** Activities of the `rotateSigningKeys` workflow. */
import { rotateSigningKeys, type SigningKeyServices } from "../src/tokens/signing-keys/rotate.ts";
import type { SigningKeyActivities } from "./types.ts";

export function createSigningKeyActivities(services: SigningKeyServices): SigningKeyActivities {
  return {
    advanceSigningKeys: async () => await rotateSigningKeys(services, { actor: "system:rotateSigningKeys" }),
  };
}
