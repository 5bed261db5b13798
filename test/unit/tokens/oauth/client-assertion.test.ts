/** How long the use of an assertion is remembered. */
import { generateKeyPairSync } from "node:crypto";
import { SignJWT } from "jose";
import { expect, test } from "vitest";
import type { ClientRecord } from "../../../../src/database/repositories/tokens/clients.ts";
import type { UsedAssertion } from "../../../../src/database/repositories/tokens/workload-credentials.ts";
import { createAssertionVerifier } from "../../../../src/tokens/oauth/client-assertion.ts";

const EXPIRES = 1_800_000_000;
const SKEW_MS = 5_000;
const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const client: ClientRecord = {
  clientId: "cl_1",
  credentialId: "crd_1",
  tenantId: "ten_1",
  principalId: "prn_1",
  active: true,
  rotationMode: "workload",
  endsAt: null,
  region: "eu",
  scope: "",
  sanUri: null,
  certificateThumbprints: [],
  jwks: { keys: [publicKey.export({ format: "jwk" }) as Record<string, string>] },
  versions: [],
};
const assertion = await new SignJWT({ iss: "cl_1", sub: "cl_1", aud: "https://us", exp: EXPIRES, jti: "one" })
  .setProtectedHeader({ alg: "ES256" })
  .sign(privateKey);

test("a use is remembered until no api accepts the assertion, though their clocks differ by the allowed skew", async () => {
  const uses: UsedAssertion[] = [];
  // The latest moment at which an api accepts it, whose clock is behind by the skew.
  const moment = EXPIRES * 1_000 + 2 * SKEW_MS - 1_000;
  const verify = createAssertionVerifier({
    audiences: ["https://us"],
    algorithms: ["ES256"],
    use: async (used) => uses.push(used) > 0,
    clock: { now: () => moment - SKEW_MS },
  });
  expect(await verify(client, assertion)).toBe(true);
  // Another, whose clock is ahead, has forgotten only what ended before its own time.
  expect(uses[0]?.expiresAt).toBeGreaterThan(moment + SKEW_MS);
});
