/** The same third-party clients, and our own, over mutual TLS: RFC 8705, with certificate-bound tokens. */
import { KeyObject } from "node:crypto";
import { readFile } from "node:fs/promises";
import * as oauth from "oauth4webapi";
import * as openid from "openid-client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { privateKeyAssertion } from "#lib/client/client-assertion.ts";
import { SignetClient, type SignetClientOptions } from "#lib/client/signet-client.ts";
import type { KeyPair } from "#http/mutual-tls/authority.ts";
import { createTlsFetch, type TlsMaterial } from "#lib/client/tls-fetch.ts";
import { readAnswer, unlessStale } from "../support/answer.ts";
import { useTestApi } from "../support/api.ts";
import {
  certificateFiles,
  clientPair,
  newRoot,
  serverPair,
  thumbprint,
  x5t,
  mutualTlsSettings,
} from "../support/certificates.ts";
import { testRuntime } from "../support/client-runtime.ts";
import { eventually } from "../support/eventually.ts";
import { bearer, provision, type Provisioned } from "../support/factories.ts";
import { freePort } from "../support/free-port.ts";
import { allowMinutes } from "../support/limits.ts";
import { spawnSignet } from "../support/processes.ts";

allowMinutes(2);

const root = await newRoot();
const server = await serverPair(root);
const [own, other] = [await clientPair(root), await clientPair(root)];
const files = certificateFiles();
const edge = `127.0.0.1:${await freePort()}`;

/** As in production, tenants use one address: the listener with mutual TLS. */
const api = useTestApi({ environment: mutualTlsSettings(files, { listen: edge, server, root }) });
afterAll(() => files.remove());

const material = (pair: KeyPair): TlsMaterial => ({ cert: pair.cert, key: pair.key, ca: root.cert });
/** Our `fetch`, which the other clients also use. */
const ownFetch = createTlsFetch(material(own));

let client: Provisioned;

beforeAll(async () => {
  client = await registered();
});

/** Creates a production credential that registers both certificates. */
async function registered(credential: Readonly<Record<string, unknown>> = {}): Promise<Provisioned> {
  return await provision(api, {
    scopes: ["credentials:read"],
    credential: { certificate_thumbprints: [own, other].map(thumbprint), ...credential },
  });
}

const keys = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, [
  "sign",
  "verify",
]);
const publicKey = { ...(await crypto.subtle.exportKey("jwk", keys.publicKey)), kid: "k1" };

type Method = "client_secret_basic" | "client_secret_post" | "tls_client_auth" | "private_key_jwt";

/** Creates a client that authenticates with the given method. */
async function clientOf(method: Method): Promise<Provisioned> {
  const { kty, crv, x, y, kid } = publicKey;
  return await {
    client_secret_basic: async () => await Promise.resolve(client),
    client_secret_post: async () => await Promise.resolve(client),
    tls_client_auth: async () => await registered({ rotation_mode: "workload" }),
    private_key_jwt: async () =>
      await registered({ rotation_mode: "workload", jwks: { keys: [{ kty, crv, x, y, kid }] } }),
  }[method]();
}

function certificateOf(token: string): unknown {
  const claims = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as {
    readonly cnf?: Readonly<Record<string, unknown>>;
  };
  return claims.cnf?.["x5t#S256"];
}

describe("openid-client", () => {
  const discover = async (
    authentication: openid.ClientAuth,
    { clientId } = client,
  ): Promise<openid.Configuration> =>
    await openid.discovery(new URL(api.publicUrl), clientId, undefined, authentication, {
      algorithm: "oauth2",
      [openid.customFetch]: async (url, init) => await ownFetch(url, init as RequestInit),
    });

  test.each<[Method, (client: Provisioned) => openid.ClientAuth]>([
    ["client_secret_basic", ({ clientSecret }) => openid.ClientSecretBasic(clientSecret)],
    ["client_secret_post", ({ clientSecret }) => openid.ClientSecretPost(clientSecret)],
    ["tls_client_auth", () => openid.TlsClientAuth()],
    ["private_key_jwt", () => openid.PrivateKeyJwt({ key: keys.privateKey, kid: "k1" })],
  ])(
    "gets a token with %s, bound to its certificate, and calls the API with both",
    async (method, authentication) => {
      const who = await clientOf(method);
      const configuration = await discover(authentication(who), who);
      const { access_token: token } = await openid.clientCredentialsGrant(configuration);
      expect(certificateOf(token)).toBe(x5t(own));
      const url = new URL("/v1/credentials", api.publicUrl);
      const { status } = await unlessStale(
        async () => await readAnswer(await openid.fetchProtectedResource(configuration, token, url, "GET")),
      );
      expect(status).toBe(200);
    },
  );
});

describe("oauth4webapi", () => {
  test.each(["client_secret_basic", "tls_client_auth", "private_key_jwt"] as const)(
    "gets a bound token with %s",
    async (method) => {
      const issuer = new URL(api.publicUrl);
      const options = {
        [oauth.customFetch]: async (url: string, init: unknown) => await ownFetch(url, init as RequestInit),
      };
      const discovered = await oauth.discoveryRequest(issuer, { ...options, algorithm: "oauth2" });
      const server = await oauth.processDiscoveryResponse(issuer, discovered);
      const { clientId, clientSecret } = await clientOf(method);
      const authentication = {
        client_secret_basic: () => oauth.ClientSecretBasic(clientSecret),
        tls_client_auth: () => oauth.TlsClientAuth(),
        private_key_jwt: () => oauth.PrivateKeyJwt({ key: keys.privateKey, kid: "k1" }),
      }[method]();
      const who = { client_id: clientId };
      const parameters = { scope: "credentials:read" };
      const response = await oauth.clientCredentialsGrantRequest(
        server,
        who,
        authentication,
        parameters,
        options,
      );
      const { access_token: token } = await oauth.processClientCredentialsResponse(server, who, response);
      expect(certificateOf(token)).toBe(x5t(own));
    },
  );
});

describe("signet/client", () => {
  const connect = (more: Partial<SignetClientOptions>): SignetClient =>
    new SignetClient({
      baseUrl: api.publicUrl,
      clientId: client.clientId,
      clientSecret: client.clientSecret,
      ...more,
    });

  test("gets a bound token and calls the API", async () => {
    const signet = connect({ tls: material(own) });
    expect((await signet.credentials.list().page()).data).toHaveLength(1);
    expect(certificateOf((await signet.accessToken()).value)).toBe(x5t(own));
  });

  test("needs no secret if its certificate or its own key authenticates it", async () => {
    const workload = await clientOf("tls_client_auth");
    const options = { baseUrl: api.publicUrl, tls: material(own) };
    const byCertificate = new SignetClient({ ...options, clientId: workload.clientId });
    expect((await byCertificate.credentials.list().page()).data).toHaveLength(1);
    const { clientId } = await clientOf("private_key_jwt");
    const key = KeyObject.from(keys.privateKey);
    const clientAssertion = privateKeyAssertion({ clientId, key, kid: "k1" });
    const byKey = new SignetClient({ ...options, clientId, clientAssertion });
    expect((await byKey.credentials.list().page()).data).toHaveLength(1);
  });

  test("replaces its token once after its certificate was renewed", async () => {
    const { clock, ...runtime } = testRuntime();
    let present = own;
    const signet = connect({ ...runtime, clock, tls: () => material(present) });
    const before = await signet.accessToken();
    present = other;
    runtime.advance(30_000);
    expect((await signet.credentials.list().page()).data).toHaveLength(1);
    const after = await signet.accessToken();
    expect(certificateOf(before.value)).toBe(x5t(own));
    expect(certificateOf(after.value)).toBe(x5t(other));
  });

  test("reports that a certificate is required if it has none", async () => {
    const bare = connect({ fetch: createTlsFetch({ ca: root.cert }) });
    await expect(bare.accessToken()).rejects.toMatchObject({ status: 401, code: "CLIENT_CERT_REQUIRED" });
  });
});

test("signet agent issues tokens that work with its certificate", async () => {
  const credential = files.write(
    "credential.json",
    JSON.stringify({ client_id: client.clientId, client_secret: client.clientSecret, version: 1 }),
  );
  const certificate = ["--cert", files.write("own.crt", own.cert), "--key", files.write("own.key", own.key)];
  const trust = ["--ca", files.write("servers.crt", root.cert)];
  const where = ["--url", api.publicUrl, "--credential-file", credential, "--listen", "127.0.0.1:0"];
  const agent = spawnSignet(["agent", ...where, ...certificate, ...trust], {});
  try {
    const address = await eventually(() => /ready: (\S+),/.exec(agent.output())?.[1], "the agent");
    const secret = (await readFile(`${credential}.agent-secret`, "utf8")).trim();
    const answer = await fetch(`${address}/token`, { headers: { "x-signet-agent-secret": secret } });
    const { access_token: token } = (await answer.json()) as { readonly access_token: string };
    expect(certificateOf(token)).toBe(x5t(own));
    const url = `${api.publicUrl}/v1/credentials`;
    const headers = bearer(token);
    const used = await unlessStale(async () => await readAnswer(await ownFetch(url, { headers })));
    expect(used.status).toBe(200);
    const otherFetch = createTlsFetch(material(other));
    const stolen = await unlessStale(async () => await readAnswer(await otherFetch(url, { headers })));
    expect(stolen.body).toMatchObject({ status: 401, code: "CERT_BINDING_MISMATCH" });
  } finally {
    await agent.stop();
  }
});
