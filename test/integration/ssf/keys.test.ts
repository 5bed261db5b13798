/** Security events have signing keys of their own: a worker opens no others, and what it opens makes no access token. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { decodeProtectedHeader } from "jose";
import { loadConfig } from "#config/config.ts";
import type { SigningKeyRow } from "#database/repositories/tokens/signing-keys.ts";
import { createLogger } from "#observability/logger.ts";
import { openSigningKey } from "#tokens/signing-keys/signing-key.ts";
import type { WorkerProcess } from "#processes/worker.ts";
import { useTestApi } from "#test/support/api.ts";
import { useTestEdge } from "#test/support/edge.ts";
import { accessToken, bearer, provision } from "#test/support/factories.ts";
import { call } from "#test/support/https-request.ts";
import { startTestWorker } from "#test/support/in-process-worker.ts";
import { testKeyring } from "#test/support/keyring.ts";
import { type Receiver, startReceiver } from "#test/support/receiver-server.ts";
import { testNamespace } from "#test/support/services.ts";
import { pushStream, streamTenant, untilSet } from "#test/support/ssf.ts";
import { type Json, sql, type Tenant } from "#test/support/tenant.ts";

const api = useTestApi({
  environment: async () => ({ SIGNET_SET_ALG: "RS256", TEMPORAL_NAMESPACE: await testNamespace() }),
});
const edge = useTestEdge(api);
const log: string[] = [];
let tenant: Tenant;
let receiver: Receiver;
let worker: WorkerProcess;

beforeAll(async () => {
  // The api has opened its keys already. A worker that opened them, too, would fail.
  await sql(api, "UPDATE signing_keys SET private_key = 'v1.00000000.a.b.c' WHERE purpose = 'access'");
  const config = loadConfig(api.environment);
  worker = await startTestWorker({
    config: { ...config, databaseUrl: api.database.url, temporalAddress: config.temporalAddress ?? "" },
    log: createLogger({ level: "debug", destination: { write: (line) => void log.push(line) } }),
  });
  tenant = await streamTenant(api);
  receiver = await startReceiver();
});
afterAll(async () => {
  await worker.close();
  await receiver.close();
});

async function keys(): Promise<readonly Json[]> {
  return (await api.request("/.well-known/jwks.json")).body["keys"] as readonly Json[];
}

test("a worker signs security events although no key of access tokens can be opened", async () => {
  const stream = await pushStream(tenant, receiver);
  const { credentialId } = await provision(api, { tenantId: tenant.tenantId });
  await api.admin("POST", `/credentials/${credentialId}/revoke`, { reason: "leaked" });
  const { request } = await untilSet(api, receiver, stream.id);
  const { alg, kid } = decodeProtectedHeader(request.rawBody.toString());
  const polled = await tenant.post("/v1/ssf/streams", {});
  await tenant.post("/v1/ssf/verify", { stream_id: polled.body["stream_id"] });
  const poll = await tenant.post(`/v1/ssf/poll/${String(polled.body["stream_id"])}`, {
    returnImmediately: true,
  });
  const [set = ""] = Object.values(poll.body["sets"] as Record<string, string>);
  expect([alg, decodeProtectedHeader(set)]).toEqual(["RS256", { alg, kid, typ: "secevent+jwt" }]);
  expect(decodeProtectedHeader(tenant.token).alg).toBe("ES256");
  expect((await keys()).map((key) => [key["alg"], key["kid"] === kid])).toEqual([
    ["ES256", false],
    ["RS256", true],
  ]);
  expect(log.filter((line) => line.includes("signing key"))).toEqual([]);
});

test("no api and no edge takes an access token that a key of security events has signed", async () => {
  const client = await provision(api, {
    scopes: ["inference:read", "credentials:read", "tokens:introspect"],
  });
  const token = await accessToken(api, client);
  const [row] = await sql<SigningKeyRow>(api, "SELECT * FROM signing_keys WHERE purpose = 'set'");
  const key = await openSigningKey(
    row as SigningKeyRow,
    testKeyring(Buffer.from(api.environment["SIGNET_KEK"] ?? "", "base64")),
  );
  const { alg, kid } = key;
  const header = Buffer.from(JSON.stringify({ alg, typ: "at+jwt", kid })).toString("base64url");
  const signed = `${header}.${token.split(".")[1]}`;
  const forged = `${signed}.${await key.sign(signed)}`;
  const ofApi = async (text: string) => await api.request("/v1/credentials", { headers: bearer(text) });
  const ofEdge = async (text: string) =>
    await call("/v1/inference/x", { port: edge.port, headers: bearer(text) });
  for (const ask of [ofApi, ofEdge]) {
    expect(await ask(token)).toMatchObject({ status: 200 });
    expect(await ask(forged)).toMatchObject({ status: 401, body: { code: "TOKEN_INVALID" } });
  }
  const introspected = await api.request("/v1/auth/introspect", {
    method: "POST",
    headers: { ...bearer(token), "content-type": "application/json" },
    body: JSON.stringify({ token: forged }),
  });
  expect(introspected).toMatchObject({ status: 200, body: { active: false } });
  expect(await api.admin("POST", "/revocations", { target: forged, reason: "leaked" })).toMatchObject({
    status: 422,
  });
});
