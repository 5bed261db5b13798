/** How long the use of an assertion is remembered. */
import { generateKeyPairSync } from "node:crypto";
import { SignJWT } from "jose";
import { expect, test } from "vitest";
import type { ClientRecord } from "#database/repositories/tokens/clients.ts";
import type { UsedAssertion } from "#database/repositories/tokens/workload-credentials.ts";
import { createAssertionVerifier } from "#tokens/oauth/client-assertion.ts";

const NOW = 1_790_000_000;
const EXPIRES = 1_800_000_000;
const SKEW_MS = 5_000;
const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const client: ClientRecord = {
  client_id: "cl_1",
  credential_id: "crd_1",
  tenant_id: "ten_1",
  principal_id: "prn_1",
  active: true,
  rotation_mode: "workload",
  ends_at: null,
  region: "eu",
  scope: "",
  san_uri: null,
  certificate_thumbprints: [],
  jwks: { keys: [publicKey.export({ format: "jwk" }) as Record<string, string>] },
  versions: [],
};
const assertion = await new SignJWT({ iss: "cl_1", sub: "cl_1", aud: "https://us", exp: EXPIRES, jti: "one" })
  .setProtectedHeader({ alg: "ES256" })
  .sign(privateKey);

/** Judges claims, which the client has signed, at a moment. */
async function judge(claims: Record<string, unknown>): Promise<true | string | undefined> {
  const verify = createAssertionVerifier({
    audiences: ["https://us", "https://us/token"],
    algorithms: ["ES256"],
    use: async () => await Promise.resolve(true),
    clock: { now: () => NOW * 1_000 },
  });
  const payload = { iss: "cl_1", sub: "cl_1", aud: "https://us", exp: NOW + 60, jti: "one", ...claims };
  const text = await new SignJWT(payload).setProtectedHeader({ alg: "ES256" }).sign(privateKey);
  return await verify(client, text);
}

test.each([
  ["an hour of life", { iat: NOW, exp: NOW + 3_600 }],
  ["an hour by a clock that is ahead", { iat: NOW + 30, nbf: NOW + 30, exp: NOW + 3_630 }],
  ["a list of one name of ours", { aud: ["https://us"] }],
  ["a list of our names", { aud: ["https://us", "https://us/token"] }],
  ["a clock that is 5 s behind", { exp: NOW - 4 }],
])("an assertion may have %s", async (_what, claims) => {
  expect(await judge(claims)).toBe(true);
});

test.each([
  ["iss", { iss: "cl_2" }],
  ["sub", { sub: undefined }],
  ["aud", { aud: "https://them" }],
  ["aud", { aud: ["https://us", "https://them"] }],
  ["aud", { aud: [] }],
  ["aud", { aud: undefined }],
  ["aud", { aud: [["https://us"]] }],
  ["jti", { jti: "" }],
  ["jti", { jti: 7 }],
  ["exp", { exp: undefined }],
  ["exp", { exp: "soon" }],
  ["exp", { exp: NOW - 6 }],
  ["exp", { exp: NOW + 3_700 }],
  ["nbf", { nbf: NOW + 40 }],
  ["iat", { iat: NOW + 40 }],
  ["iat", { iat: "now" }],
])("who has signed an assertion learns that %s is wrong: %j", async (claim, claims) => {
  expect(await judge(claims)).toMatch(new RegExp(`^${claim} `));
});

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
