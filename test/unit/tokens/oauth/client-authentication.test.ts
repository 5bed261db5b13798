import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { newClientId, newClientSecret } from "#tokens/credentials/secret-format.ts";
import { Pepper } from "#crypto/pepper.ts";
import type { ClientRecord } from "#database/repositories/tokens/clients.ts";
import type { ClientCertificate } from "#http/mutual-tls/client-certificate.ts";
import { createClientAuthenticator, presentedCredentials } from "#tokens/oauth/client-authentication.ts";

const basic = (pair: string): string => `Basic ${Buffer.from(pair).toString("base64")}`;
const code = (name: string) => expect.objectContaining({ code: name }) as Error;

test("Basic carries percent-encoded parts, split at the first colon", () => {
  expect(presentedCredentials(basic("a%3Ab+c:d:e%25"), {})).toEqual({
    method: "client_secret_basic",
    clientId: "a:b c",
    clientSecret: "d:e%",
  });
});

test("the scheme's name is not case-sensitive", () => {
  expect(presentedCredentials(basic("a:b").replace("Basic", "bASIC"), {}).clientId).toBe("a");
});

test.each([
  ["a secret in header and body", basic("a:b"), { client_secret: "b" }],
  ["two clients", basic("a:b"), { client_id: "c" }],
  ["a bad percent escape", basic("a%:b"), {}],
  ["an escape that is not UTF-8", basic("%ff:b"), {}],
  ["bytes that are not UTF-8", `Basic ${Buffer.from([0xff, 0x3a, 0x61]).toString("base64")}`, {}],
  ["a secret without an id", undefined, { client_secret: "b" }],
] as const)("%s is an invalid request", (_name, header, parameters) => {
  expect(() => presentedCredentials(header, parameters)).toThrow(code("INVALID_REQUEST"));
});

test("the same client id in header and body is one authentication method", () => {
  expect(presentedCredentials(basic("a:b"), { client_id: "a" }).method).toBe("client_secret_basic");
});

test.each([
  ["nothing", undefined, {}],
  ["an id only", undefined, { client_id: "a" }],
  ["another scheme", "Bearer abc", { client_id: "a", client_secret: "b" }],
  ["Basic without credentials", "Basic", {}],
  ["Basic with invalid base64", "Basic !!!", {}],
] as const)("%s does not authenticate a client", (_name, header, parameters) => {
  expect(() => presentedCredentials(header, parameters)).toThrow(code("INVALID_CLIENT"));
});

const pepperKey = randomBytes(32);
const pepper = new Pepper(pepperKey);
const clientId = newClientId(randomBytes);
const secrets = [1, 2, 3].map(() => newClientSecret("production", randomBytes));
const record: ClientRecord = {
  client_id: clientId,
  credential_id: "crd",
  tenant_id: "ten",
  principal_id: "prn",
  active: true,
  rotation_mode: "manual",
  ends_at: null,
  region: "eu",
  scope: "a:b",
  san_uri: null,
  certificate_thumbprints: [],
  jwks: null,
  versions: secrets.map((secret, index) => ({
    version: index + 1,
    mac: pepper.mac(secret),
    mac_key_id: pepper.id,
    state: "ACTIVE",
    issued_at: 0,
    due_at: null,
    retire_by: null,
    superseded_at: null,
    last_used_at: null,
    retired_at: null,
    retired_reason: null,
    wrapped: null,
  })),
};
const present = (id: string, clientSecret: string) =>
  ({ method: "client_secret_post", clientId: id, clientSecret }) as const;

const RULES = { periodMs: 1, quietMs: 1, maxOverlapMs: 1, rescueMs: 1 };
const withRules = {
  rules: RULES,
  clock: { now: () => 1 },
  findRetiredClient: async () => undefined,
  verifyAssertion: async () => undefined,
};

function authenticator(found: ClientRecord | undefined) {
  const asked: string[] = [];
  const authenticate = createClientAuthenticator({
    ...withRules,
    pepper,
    findClient: async (id) => {
      asked.push(id);
      return found;
    },
    findRetiredClient: async (id) => {
      asked.push(id);
      return undefined;
    },
  });
  return { authenticate, asked };
}

test("every live version of the secret authenticates, and is identified", async () => {
  for (const [index, secret] of secrets.entries()) {
    const { version } = await authenticator(record).authenticate(present(clientId, secret));
    expect(version?.version).toBe(index + 1);
  }
});

test.each([
  ["an unknown client", undefined, clientId, secrets[0] ?? ""],
  ["a wrong secret", record, clientId, newClientSecret("production", randomBytes)],
  ["an inactive client", { ...record, active: false }, clientId, secrets[0] ?? ""],
  ["no live version", { ...record, versions: [] }, clientId, secrets[0] ?? ""],
  [
    "a version of another pepper",
    { ...record, versions: record.versions.map((version) => ({ ...version, mac_key_id: "other" })) },
    clientId,
    secrets[0] ?? "",
  ],
] as const)("%s gets the same answer", async (_name, found, id, secret) => {
  await expect(authenticator(found).authenticate(present(id, secret))).rejects.toMatchObject({
    code: "INVALID_CLIENT",
    message: "Client authentication failed.",
    headers: {},
  });
});

test.each([
  ["an unknown client", undefined, newClientSecret("production", randomBytes)],
  ["a wrong secret", record, newClientSecret("production", randomBytes)],
  ["the right secret of an inactive client", { ...record, active: false }, secrets[0] ?? ""],
  ["the right secret of a client that has ended", { ...record, ends_at: 1 }, secrets[0] ?? ""],
  [
    "the right secret with another client's certificate",
    { ...record, certificate_thumbprints: ["x"] },
    secrets[0] ?? "",
  ],
] as const)("%s takes two look-ups, so that no rejection shows in the time", async (_name, found, secret) => {
  const { authenticate, asked } = authenticator(found);
  const foreign = { thumbprint: "y", sanUris: [] } as unknown as ClientCertificate;
  await expect(authenticate(present(clientId, secret), foreign)).rejects.toMatchObject({
    code: "INVALID_CLIENT",
  });
  expect(asked).toEqual([clientId, clientId]);
});

test("an admitted client takes one look-up", async () => {
  const { authenticate, asked } = authenticator(record);
  await authenticate(present(clientId, secrets[0] ?? ""));
  expect(asked).toEqual([clientId]);
});

test("garbage is rejected without a database query", async () => {
  const { authenticate, asked } = authenticator(record);
  const [secret = ""] = secrets;
  for (const [id, text] of [
    [clientId, "s3cret"],
    [clientId, `${secret.slice(0, -1)}${secret.endsWith("0") ? "1" : "0"}`],
    ["cl_x", secret],
    ["\0", secret],
  ] as const) {
    await expect(authenticate(present(id, text))).rejects.toMatchObject({ code: "INVALID_CLIENT" });
  }
  expect(asked).toEqual([]);
});

test("a secret under a previous pepper authenticates, and its MAC under the newest is returned", async () => {
  const [secret = ""] = secrets;
  const newest = randomBytes(32);
  const reported: unknown[] = [];
  const authenticate = createClientAuthenticator({
    ...withRules,
    findClient: async () => record,
    pepper: new Pepper(newest, [pepperKey]),
    onOldMac: (old) => reported.push(old),
  });
  await authenticate(present(clientId, secret));
  expect(reported).toEqual([
    { credential_id: "crd", version: 1, mac_key_id: pepper.id, newMac: new Pepper(newest).mac(secret) },
  ]);
  const wrong = newClientSecret("production", randomBytes);
  await expect(authenticate(present(clientId, wrong))).rejects.toMatchObject({ code: "INVALID_CLIENT" });
  expect(reported).toHaveLength(1);
});
