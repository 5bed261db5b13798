import { expect, test } from "vitest";
import { issueToken, type TokenServices } from "#tokens/oauth/token.ts";

/**
 * Issues a token with a key that is revoked until it is replaced; `replaceable` says whether another one exists,
 * `meanwhile` whether it takes over while the first token is signed.
 */
async function issueAfterRevocation(replaceable: boolean, meanwhile = false): Promise<string> {
  let key = "revoked";
  const client = {
    clientId: "cl_1",
    credentialId: "crd_1",
    principalId: "prn_1",
    tenantId: "ten_1",
    scope: "a:b",
  };
  const authenticated = { client, version: undefined, registeredCertificate: true, admission: "current" };
  const services = {
    authenticate: async () => await Promise.resolve(authenticated),
    limits: {
      identify: async (_address: string, identify: () => Promise<unknown>) => await identify(),
      admitClient: () => undefined,
      authenticate: async (_address: string, _client: string, authenticate: () => Promise<unknown>) =>
        await authenticate(),
    },
    mint: async () => {
      const kid = key;
      key = meanwhile ? "next" : key;
      return await Promise.resolve({ token: `signed with the ${kid} key`, jti: "jti_1", kid });
    },
    issued: { note: () => undefined },
    clock: { now: () => 1e12 },
    issuableFrom: (_subject: unknown, kid: string) => (kid === "revoked" ? Infinity : 0),
    replaceRevokedKey: async (kid: string) => {
      key = replaceable ? "next" : key;
      return await Promise.resolve(key !== kid);
    },
    audience: "signet",
    resources: [],
  } as unknown as TokenServices;
  const request = {
    address: "127.0.0.1",
    query: {},
    authorization: undefined,
    contentType: "application/x-www-form-urlencoded",
    body: Buffer.from("grant_type=client_credentials&client_id=cl_1&client_secret=x"),
  } as unknown as Parameters<typeof issueToken>[0];
  return (await issueToken(request, services)).access_token;
}

test("a request after the revocation of the signing key gets a token of the next key", async () => {
  expect(await issueAfterRevocation(true)).toBe("signed with the next key");
});

test("a token is not handed out whose key was revoked and replaced while it was signed", async () => {
  expect(await issueAfterRevocation(true, true)).toBe("signed with the next key");
});

test("a request of a revoked client, or without a next key, is refused", async () => {
  await expect(issueAfterRevocation(false)).rejects.toThrow(
    expect.objectContaining({ code: "INVALID_CLIENT" }),
  );
});
