/** Mutual TLS on our listener: which certificates it accepts, on which routes, and for how long. */
import { randomBytes } from "node:crypto";
import { Agent } from "node:https";
import { connect } from "node:tls";
import { afterAll, describe, expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import {
  certificateFiles,
  clientPair,
  newRoot,
  serverPair,
  thumbprint,
  today,
  x5t,
} from "#test/support/certificates.ts";
import { eventually } from "#test/support/eventually.ts";
import { bearer, grant, provision, type Provisioned } from "#test/support/factories.ts";
import { issueWith } from "#test/support/weak-certificates.ts";
import { call, type CallOptions } from "#test/support/https-request.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

const root = await newRoot();
const rogue = await newRoot();
const intermediate = await root.issueAuthority({ subject: "CN=Intermediate", ...today() });
const good = await clientPair(root);
const files = certificateFiles();
const server = await serverPair(root);

const api = useTestApi({
  environment: {
    SIGNET_MTLS_MODE: "native",
    SIGNET_TLS_KEY_FILE: files.write("server.key", server.key),
    SIGNET_TLS_CERT_FILE: files.write("server.crt", server.cert),
    SIGNET_CLIENT_CA_FILE: files.write("clients.crt", root.cert),
  },
});
afterAll(() => files.remove());

const edge = (options: CallOptions = {}): CallOptions => ({ port: api.edgePort, ca: root.cert, ...options });

async function tokenOver(client: Provisioned, options: CallOptions = {}) {
  return await call("/v1/auth/token", edge({ json: grant(client), ...options }));
}

async function boundToken(client: Provisioned, pair = good): Promise<string> {
  const answer = await tokenOver(client, { pair });
  expect(answer).toMatchObject({ status: 200 });
  return String(answer.body["access_token"]);
}

const refusedBy = async (options: CallOptions) => {
  const client = await provision(api, { environment: "development" });
  const { status, body, headers } = await tokenOver(client, options);
  return { status, body, challenge: headers["www-authenticate"] };
};

test.each(["/.well-known/jwks.json", "/.well-known/oauth-authorization-server", "/healthz", "/openapi.json"])(
  "%s is public, also without a certificate",
  async (path) => {
    expect(await call(path, edge())).toMatchObject({ status: 200 });
  },
);

describe("the token endpoint answers 401 CLIENT_CERT_REQUIRED as an OAuth error", () => {
  const cases: readonly [string, () => Promise<CallOptions>, string][] = [
    ["without a certificate", async () => ({}), "missing"],
    [
      "to an expired certificate",
      async () => ({ pair: await clientPair(root, { notAfter: new Date(Date.now() - 60_000) }) }),
      "expired",
    ],
    [
      "to a certificate that is not valid yet",
      async () => ({ pair: await clientPair(root, { notBefore: new Date(Date.now() + HOUR_MS) }) }),
      "not valid yet",
    ],
    [
      "to a server certificate",
      async () => ({ pair: await clientPair(root, { purposes: ["serverAuth"] }) }),
      "wrong purpose",
    ],
    [
      "to a certificate without a purpose",
      async () => ({ pair: await root.issue({ subject: "CN=client", ...today() }) }),
      "wrong purpose",
    ],
    [
      "to a certificate of a rogue authority of the same name",
      async () => ({ pair: await clientPair(rogue) }),
      "not trusted",
    ],
    [
      "to a certificate with a weak key",
      async () => ({ pair: await issueWith(root, { key: "RSA-1024" }) }),
      "too weak",
    ],
    [
      "to a certificate signed with SHA-1",
      async () => ({ pair: await issueWith(root, { hash: "SHA-1" }) }),
      "too weak",
    ],
    [
      "to a certificate of an intermediate that is signed with SHA-1",
      async () => {
        const weak = await issueWith(root, { hash: "SHA-1", subject: "CN=Weak", authority: true });
        const leaf = await issueWith({ ...weak, subject: "CN=Weak" }, {});
        return { pair: { key: leaf.key, cert: leaf.cert + weak.cert } };
      },
      "too weak",
    ],
    ["to a CA certificate", async () => ({ pair: intermediate }), "wrong purpose"],
    [
      "to a certificate whose intermediate is missing",
      async () => ({ pair: await clientPair(intermediate) }),
      "not trusted",
    ],
  ];
  test.each(cases)("%s", async (_name, options, problem) => {
    expect(await refusedBy(await options())).toEqual({
      status: 401,
      body: {
        error: "invalid_client",
        error_description: `This route requires mutual TLS with a trusted client certificate (${problem}).`,
        code: "CLIENT_CERT_REQUIRED",
        request_id: expect.stringMatching(/^req_/),
      },
      challenge: undefined,
    });
  });
});

test.each(["RSA-2048", "P-256", "P-384", "P-521", "Ed25519"] as const)(
  "a key of %s is accepted",
  async (key) => {
    const pair = await issueWith(root, { key });
    const client = await provision(api, { environment: "development" });
    expect(await tokenOver(client, { pair })).toMatchObject({ status: 200 });
  },
);

test("a chain with an intermediate sent by the client is accepted", async () => {
  const leaf = await clientPair(intermediate);
  const client = await provision(api, { environment: "development" });
  const pair = { key: leaf.key, cert: leaf.cert + intermediate.cert };
  expect(await tokenOver(client, { pair })).toMatchObject({ status: 200 });
});

test("a Bearer route answers 401 CLIENT_CERT_REQUIRED as a problem before it checks the token", async () => {
  expect(await call("/v1/credentials", edge({ headers: bearer("nonsense") }))).toMatchObject({
    status: 401,
    headers: {
      "content-type": expect.stringContaining("application/problem+json"),
      "www-authenticate": 'Bearer realm="service", error="invalid_token"',
    },
    body: { code: "CLIENT_CERT_REQUIRED", status: 401, instance: "/v1/credentials" },
  });
});

test("plain HTTP needs no certificate in development, and its tokens are unbound", async () => {
  const client = await provision(api, { environment: "development" });
  const answer = await api.token(grant(client));
  const token = String(answer.body["access_token"]);
  expect(JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString())).not.toHaveProperty(
    "cnf",
  );
  expect(await api.request("/v1/credentials", { headers: bearer(token) })).toMatchObject({ status: 200 });
});

describe("a token requested with a certificate", () => {
  test("names the certificate and works with it", async () => {
    const token = await boundToken(await provision(api, { environment: "development" }));
    const claims = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as unknown;
    expect(claims).toMatchObject({ cnf: { "x5t#S256": x5t(good) } });
    expect(await call("/v1/credentials", edge({ pair: good, headers: bearer(token) }))).toMatchObject({
      status: 200,
    });
  });

  test("is rejected with another certificate, and over plain HTTP without one", async () => {
    const token = await boundToken(await provision(api, { environment: "development" }));
    const other = await clientPair(root);
    const mismatch = {
      status: 401,
      headers: { "www-authenticate": 'Bearer realm="service", error="invalid_token"' },
      body: { code: "CERT_BINDING_MISMATCH" },
    };
    expect(await call("/v1/credentials", edge({ pair: other, headers: bearer(token) }))).toMatchObject(
      mismatch,
    );
    expect(await call("/v1/credentials", { port: api.publicPort, headers: bearer(token) })).toMatchObject(
      mismatch,
    );
  });
});

describe("a credential with a registered certificate", () => {
  const SPIFFE_ID = "spiffe://service.example/tenant/t/client/c";

  async function registered(body: Record<string, unknown>): Promise<Provisioned> {
    const client = await provision(api, { environment: "development" });
    const answer = await api.admin("POST", `/principals/${client.principalId}/credentials`, body);
    return {
      ...client,
      clientId: String(answer.body["client_id"]),
      clientSecret: String(answer.body["client_secret"]),
    };
  }

  test("yields tokens over it: by thumbprint, or by SPIFFE id with any certificate", async () => {
    const byThumbprint = await registered({ certificate_thumbprints: [thumbprint(good)] });
    expect(await tokenOver(byThumbprint, { pair: good })).toMatchObject({ status: 200 });
    const bySpiffeId = await registered({ san_uri: SPIFFE_ID });
    for (let renewal = 0; renewal < 2; renewal += 1) {
      const pair = await clientPair(root, { sanUri: SPIFFE_ID });
      expect(await tokenOver(bySpiffeId, { pair })).toMatchObject({ status: 200 });
    }
  });

  test("gives a foreign certificate the same 401 as a wrong secret, byte for byte", async () => {
    const client = await registered({ san_uri: SPIFFE_ID });
    const answers = [
      await tokenOver(client, { pair: good }),
      await tokenOver(
        { ...client, clientSecret: (await provision(api, { environment: "development" })).clientSecret },
        { pair: good },
      ),
      await tokenOver(client, { pair: await clientPair(root, { sanUri: `${SPIFFE_ID}2` }) }),
    ];
    const seen = answers.map(({ status, headers, text }) => {
      const { date: _date, "x-request-id": id, ...rest } = headers;
      return JSON.stringify([status, rest, text.replace(String(id), "")]);
    });
    expect(answers[0]).toMatchObject({ status: 401, body: { code: "INVALID_CLIENT" } });
    expect(new Set(seen).size).toBe(1);
  });
});

test("a Client-Cert header from a client is a 400 and is logged, on both listeners", async () => {
  for (const [header, value] of [
    ["Client-Cert", ":AAAA:"],
    ["client-cert-chain", ":AAAA:"],
  ] as const) {
    for (const options of [edge({ pair: good }), { port: api.publicPort }]) {
      const before = api.log.length;
      const answer = await call("/healthz", { ...options, headers: { [header]: value } });
      expect(answer).toMatchObject({ status: 400, body: { code: "INVALID_REQUEST" } });
      const lines = api.log.slice(before).map((line) => JSON.parse(line) as Record<string, unknown>);
      expect(lines).toContainEqual(
        expect.objectContaining({
          level: "warn",
          msg: expect.stringContaining("untrusted peer"),
          client_address: "127.0.0.1",
        }),
      );
    }
  }
});

/** A resumed session would have the client's certificate without its chain. */
describe.each(["TLSv1.2", "TLSv1.3"] as const)("a session (%s)", (maxVersion) => {
  async function opened(pair = good): Promise<{ client: Provisioned; session: Buffer | undefined }> {
    const client = await provision(api, { environment: "development" });
    const first = await tokenOver(client, { pair, maxVersion });
    expect(first).toMatchObject({ status: 200, reused: false });
    return { client, session: first.session };
  }

  test("is not resumed: the client proves again that it holds its key", async () => {
    const { client, session } = await opened();
    expect(await tokenOver(client, { pair: good, maxVersion, session })).toMatchObject({
      status: 200,
      reused: false,
    });
    expect(await tokenOver(client, { maxVersion, session })).toMatchObject({
      status: 401,
      reused: false,
      body: { error_description: expect.stringContaining("(missing)") },
    });
  });

  test("ends with the certificate's revocation", async () => {
    const pair = await clientPair(root);
    const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: root.cert, ...pair, maxVersion });
    const { client } = await opened(pair);
    expect(await tokenOver(client, { agent })).toMatchObject({ status: 200 });
    const revocation = { kind: "cert", target: thumbprint(pair) };
    expect(await api.admin("POST", "/revocations", revocation)).toMatchObject({ status: 200 });
    const revoked = {
      status: 401,
      body: { code: "CLIENT_CERT_REQUIRED", error_description: expect.stringContaining("(revoked)") },
    };
    await eventually(async () => (await tokenOver(client, { agent })).status === 401, "the revocation");
    expect(await tokenOver(client, { agent })).toMatchObject(revoked);
    expect(await tokenOver(client, { pair, maxVersion })).toMatchObject(revoked);
    agent.destroy();
  });

  test("ends when the certificate expires", async () => {
    const pair = await clientPair(root, { notAfter: new Date(api.clock.now() + HOUR_MS) });
    const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: root.cert, ...pair, maxVersion });
    const { client } = await opened(pair);
    expect(await tokenOver(client, { agent, maxVersion })).toMatchObject({ status: 200 });
    api.clock.advance(2 * HOUR_MS);
    const expired = { status: 401, body: { error_description: expect.stringContaining("(expired)") } };
    expect(await tokenOver(client, { agent, maxVersion })).toMatchObject(expired);
    agent.destroy();
  });
});

test("TLS older than 1.2 is rejected", async () => {
  await expect(
    new Promise((resolve, reject) => {
      const socket = connect({
        port: api.edgePort,
        host: "127.0.0.1",
        ca: root.cert,
        minVersion: "TLSv1",
        maxVersion: "TLSv1.1",
        ciphers: "DEFAULT@SECLEVEL=0",
      });
      socket.on("secureConnect", resolve).on("error", reject);
    }),
  ).rejects.toThrow(/protocol version|alert/i);
});

test("plain HTTP on the TLS port is closed without an answer", async () => {
  await expect(call("/healthz", { port: api.edgePort })).rejects.toThrow(/hang up|ECONNRESET/);
});

test("a changed CA file takes effect within seconds, for new and open connections", async () => {
  const client = await provision(api, { environment: "development" });
  const agentOf = (pair: typeof good) =>
    new Agent({ keepAlive: true, maxSockets: 1, ca: root.cert, ...pair });
  const leaf = await clientPair(intermediate);
  const [agent, below] = [agentOf(good), agentOf({ ...leaf, cert: leaf.cert + intermediate.cert })];
  expect(await tokenOver(client, { agent })).toMatchObject({ status: 200 });
  expect(await tokenOver(client, { agent: below })).toMatchObject({ status: 200 });
  const replacement = await newRoot("Another CA");
  const pair = await clientPair(replacement);
  const status = async (of: typeof good): Promise<number> => (await tokenOver(client, { pair: of })).status;
  files.write("clients.crt", root.cert + replacement.cert);
  await eventually(async () => (await status(pair)) === 200, "the new authority to be trusted");
  expect(await tokenOver(client, { agent: below })).toMatchObject({ status: 200 });
  files.write("clients.crt", replacement.cert);
  await eventually(async () => (await status(good)) === 401, "the first authority to lose its trust");
  const untrusted = { status: 401, body: { error_description: expect.stringContaining("(not trusted)") } };
  expect(await tokenOver(client, { pair: good })).toMatchObject(untrusted);
  expect(await tokenOver(client, { agent })).toMatchObject(untrusted);
  files.write(
    "clients.crt",
    `${replacement.cert} and rubbish ${randomBytes(4).toString("hex")}`.replace("MII", "M I"),
  );
  await eventually(
    () => api.log.some((line) => line.includes("is unusable")),
    "the rejection of an invalid file",
  );
  expect(await tokenOver(client, { pair })).toMatchObject({ status: 200 });
  files.write("clients.crt", root.cert);
  await eventually(async () => (await status(good)) === 200, "the first authority again");
  agent.destroy();
  below.destroy();
});

test("an expired authority invalidates the certificates that it issued", async () => {
  const short = await root.issueAuthority({
    subject: "CN=Short",
    notBefore: today().notBefore,
    notAfter: new Date(api.clock.now() + HOUR_MS),
  });
  const leaf = await clientPair(short, { notAfter: new Date(api.clock.now() + DAY_MS) });
  const pair = { key: leaf.key, cert: leaf.cert + short.cert };
  const client = await provision(api, { environment: "development" });
  expect(await tokenOver(client, { pair })).toMatchObject({ status: 200 });
  api.clock.advance(2 * HOUR_MS);
  expect(await tokenOver(client, { pair })).toMatchObject({
    status: 401,
    body: { error_description: expect.stringContaining("(expired)") },
  });
});

describe("POST /v1/credentials over mutual TLS", () => {
  const scopes = ["credentials:write"];

  async function post(token: string, json: unknown, pair = good) {
    return await call("/v1/credentials", edge({ pair, json, headers: bearer(token) }));
  }

  test("creates a production credential that names its certificate, and its secret works only over that one", async () => {
    const certificate = { certificate_thumbprints: [thumbprint(good)] };
    const client = await provision(api, { scopes, credential: certificate });
    const token = await boundToken(client);
    const bare = await post(token, {});
    expect(bare).toMatchObject({ status: 422, body: { code: "VALIDATION_FAILED" } });
    const made = await post(token, certificate);
    expect(made).toMatchObject({ status: 201, headers: { "cache-control": "no-store" }, body: certificate });
    const own = {
      ...client,
      clientId: String(made.body["client_id"]),
      clientSecret: String(made.body["client_secret"]),
    };
    expect(await tokenOver(own, { pair: good })).toMatchObject({ status: 200 });
    const stolen = await tokenOver(own, { pair: await clientPair(root) });
    expect(stolen).toMatchObject({ status: 401, body: { code: "INVALID_CLIENT" } });
  });

  test("keeps the replaced credential's certificate", async () => {
    const client = await provision(api, {
      scopes,
      credential: { certificate_thumbprints: [thumbprint(good)] },
    });
    const made = await post(await boundToken(client), { replaces: client.credentialId });
    expect(made).toMatchObject({ status: 201, body: { certificate_thumbprints: [thumbprint(good)] } });
  });

  test("rejects a token over another certificate, and any token without a certificate", async () => {
    const client = await provision(api, {
      scopes,
      credential: { certificate_thumbprints: [thumbprint(good)] },
    });
    const token = await boundToken(client);
    const other = await post(token, { replaces: client.credentialId }, await clientPair(root));
    expect(other).toMatchObject({ status: 401, body: { code: "CERT_BINDING_MISMATCH" } });
    const without = await call(
      "/v1/credentials",
      edge({ json: { replaces: client.credentialId }, headers: bearer(token) }),
    );
    expect(without).toMatchObject({ status: 401, body: { code: "CLIENT_CERT_REQUIRED" } });
    // Neither attempt changed anything: the replacement still succeeds.
    expect(await post(token, { replaces: client.credentialId })).toMatchObject({ status: 201 });
  });
});
