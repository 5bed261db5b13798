/** Production clients without a secret: tls_client_auth (RFC 8705) and private_key_jwt (RFC 7523). */
import { generateKeyPairSync, type KeyObject, randomUUID } from "node:crypto";
import { SignJWT } from "jose";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import {
  certificateFiles,
  clientPair,
  newRoot,
  serverPair,
  thumbprint,
  x5t,
} from "#test/support/certificates.ts";
import { bearer, grant, provision, type Provisioned } from "#test/support/factories.ts";
import { call, type CallAnswer, type CallOptions } from "#test/support/https-request.ts";

const ISSUER = "https://api.service.example";
const JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/** All that FAPI 2.0 permits. */
const ASSERTION_ALGS = ["PS256", "ES256", "EdDSA", "Ed25519"];
const root = await newRoot();
const pair = await clientPair(root, { sanUri: "spiffe://service.example/tenant/t/client/c" });
const files = certificateFiles();
const server = await serverPair(root);

const api = useTestApi({
  environment: {
    SIGNET_ENV: "production",
    SIGNET_PUBLIC_URL: ISSUER,
    SIGNET_MTLS_URL: "https://mtls.service.example",
    SIGNET_CLIENT_ASSERTION_ALGS: ASSERTION_ALGS.join(","),
    SIGNET_TLS_KEY_FILE: files.write("server.key", server.key),
    SIGNET_TLS_CERT_FILE: files.write("server.crt", server.cert),
    SIGNET_CLIENT_CA_FILE: files.write("clients.crt", root.cert),
  },
});
afterAll(() => files.remove());

const edge = (options: CallOptions = {}): CallOptions => ({
  port: api.edgePort,
  ca: root.cert,
  pair,
  ...options,
});

async function ask(parameters: Record<string, unknown>, options: CallOptions = {}): Promise<CallAnswer> {
  return await call(
    "/v1/auth/token",
    edge({ json: { grant_type: "client_credentials", ...parameters }, ...options }),
  );
}

function claims({ body }: CallAnswer): Record<string, unknown> {
  return JSON.parse(
    Buffer.from(String(body["access_token"]).split(".")[1] ?? "", "base64url").toString(),
  ) as Record<string, unknown>;
}

async function sql(text: string, values: unknown[] = []): Promise<void> {
  const connection = new Client({ connectionString: api.database.adminUrl });
  await connection.connect();
  try {
    await connection.query(text, values);
  } finally {
    await connection.end();
  }
}

/** RFC 8037 appendix A.1. */
const PRINTED = { kty: "OKP", crv: "Ed25519", x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" };
const REFUSED = { status: 401, body: { error: "invalid_client", code: "INVALID_CLIENT" } };
const byThumbprint = { certificate_thumbprints: [thumbprint(pair)] };

describe("production", () => {
  test("issues and accepts tokens only on the mutual TLS listener; documents are everywhere", async () => {
    const client = await provision(api, { credential: byThumbprint });
    const answer = await call("/v1/auth/token", edge({ json: grant(client) }));
    expect(answer).toMatchObject({ status: 200 });
    const headers = bearer(String(answer.body["access_token"]));
    expect(await call("/v1/credentials", edge({ headers }))).toMatchObject({ status: 200 });

    const plain = { port: api.publicPort };
    const required = { status: 401, body: { code: "CLIENT_CERT_REQUIRED" } };
    expect(await call("/v1/auth/token", { ...plain, json: grant(client) })).toMatchObject(required);
    expect(await call("/v1/credentials", { ...plain, headers })).toMatchObject(required);
    for (const path of [
      "/.well-known/jwks.json",
      "/.well-known/oauth-authorization-server",
      "/healthz",
      "/openapi.json",
    ]) {
      expect(await call(path, plain)).toMatchObject({ status: 200 });
    }
  });

  test("rejects tokens that are not bound to a certificate", async () => {
    // Signed with the same key by a development process.
    expect(await call("/v1/credentials", edge({ headers: bearer(await unboundToken()) }))).toMatchObject({
      status: 401,
      body: { code: "CERT_BINDING_MISMATCH" },
    });
  });

  test("creates no production credential without a certificate", async () => {
    const client = await provision(api, { credential: byThumbprint });
    expect(await api.admin("POST", `/principals/${client.principalId}/credentials`, {})).toMatchObject({
      status: 422,
      body: { code: "VALIDATION_FAILED" },
    });
  });

  test("publishes matching metadata (RFC 8414, RFC 8705 section 5)", async () => {
    const { body } = await call("/.well-known/oauth-authorization-server", edge());
    expect(body).toMatchObject({
      token_endpoint: `${ISSUER}/v1/auth/token`,
      tls_client_certificate_bound_access_tokens: true,
      mtls_endpoint_aliases: {
        token_endpoint: "https://mtls.service.example/v1/auth/token",
        revocation_endpoint: "https://mtls.service.example/v1/auth/revoke",
        introspection_endpoint: "https://mtls.service.example/v1/auth/introspect",
      },
    });
    for (const endpoint of ["token", "revocation", "introspection"]) {
      expect(body).toMatchObject({
        [`${endpoint}_endpoint_auth_methods_supported`]: [
          "client_secret_post",
          "client_secret_basic",
          "tls_client_auth",
          "private_key_jwt",
        ],
        [`${endpoint}_endpoint_auth_signing_alg_values_supported`]: ASSERTION_ALGS,
      });
    }
  });
});

/** Issues a token with the same keys but no certificate, through a development process on the same database. */
async function unboundToken(): Promise<string> {
  const { loadConfig } = await import("#config/config.ts");
  const { startApi } = await import("#processes/api.ts");
  const { createLogger } = await import("#observability/logger.ts");
  const config = loadConfig({
    ...api.environment,
    SIGNET_ENV: "development",
    SIGNET_MTLS_MODE: "off",
    SIGNET_API_LISTEN: "127.0.0.1:0",
    SIGNET_ADMIN_LISTEN: "127.0.0.1:0",
  });
  const { databaseUrl = "", temporalAddress = "" } = config;
  const running = await startApi({
    config: { ...config, databaseUrl, temporalAddress },
    log: createLogger({ level: "silent" }),
  });
  const client = await provision(api, { credential: byThumbprint });
  const answer = await call("/v1/auth/token", { port: running.publicAddress.port, json: grant(client) });
  await running.close();
  expect(answer).toMatchObject({ status: 200 });
  return String(answer.body["access_token"]);
}

describe("tls_client_auth", () => {
  let client: Provisioned;
  beforeAll(async () => {
    client = await provision(api, { credential: { rotation_mode: "workload", ...byThumbprint } });
  });

  test("issues a token for the client id and the registered certificate, without a secret", async () => {
    expect(client.clientSecret).toBe("");
    const answer = await ask({ client_id: client.clientId });
    expect(answer).toMatchObject({ status: 200 });
    expect(claims(answer)).toMatchObject({ sub: client.clientId, cv: 0, cnf: { "x5t#S256": x5t(pair) } });
  });

  test("issues none with another certificate, for another client, or with a secret", async () => {
    expect(await ask({ client_id: client.clientId }, { pair: await clientPair(root) })).toMatchObject(
      REFUSED,
    );
    const withSecret = await provision(api, { credential: byThumbprint });
    expect(await ask({ client_id: withSecret.clientId })).toMatchObject(REFUSED);
    expect(await ask({ client_id: `cl_${"a".repeat(24)}` })).toMatchObject(REFUSED);
    expect(await ask({ client_id: client.clientId, client_secret: withSecret.clientSecret })).toMatchObject(
      REFUSED,
    );
  });

  test("ends with the credential's revocation", async () => {
    const revoked = await provision(api, { credential: { rotation_mode: "workload", ...byThumbprint } });
    await sql("UPDATE credentials SET state = 'REVOKED' WHERE id = $1", [revoked.credentialId]);
    expect(await ask({ client_id: revoked.clientId })).toMatchObject(REFUSED);
  });
});

describe("private_key_jwt", () => {
  const ec = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const ed = generateKeyPairSync("ed25519");
  const rsa = generateKeyPairSync("rsa", { modulusLength: 2_048 });
  const jwk = (key: KeyObject, more: Record<string, string>) => ({
    ...key.export({ format: "jwk" }),
    ...more,
  });
  const keys = [
    jwk(ec.publicKey, { kid: "ec", use: "sig", extra: "ignored" }),
    jwk(ed.publicKey, { kid: "ed" }),
    jwk(rsa.publicKey, { kid: "rsa", alg: "PS256" }),
    jwk(rsa.publicKey, { kid: "any" }),
  ];
  let client: Provisioned;
  beforeAll(async () => {
    client = await provision(api, {
      credential: { rotation_mode: "workload", jwks: { keys }, ...byThumbprint },
    });
  });

  interface Assertion {
    readonly claims?: Record<string, unknown>;
    readonly header?: Record<string, unknown>;
    readonly key?: KeyObject | Uint8Array;
  }
  const seconds = () => Math.floor(api.clock.now() / 1_000);

  async function assertion({
    claims: more = {},
    header = {},
    key = ec.privateKey,
  }: Assertion = {}): Promise<string> {
    const payload = {
      iss: client.clientId,
      sub: client.clientId,
      aud: ISSUER,
      jti: randomUUID(),
      iat: seconds(),
      exp: seconds() + 60,
      ...more,
    };
    return await new SignJWT(payload).setProtectedHeader({ alg: "ES256", kid: "ec", ...header }).sign(key);
  }

  async function signIn(
    text: string,
    more: Record<string, unknown> = {},
    options: CallOptions = {},
  ): Promise<CallAnswer> {
    return await ask({ client_assertion_type: JWT_BEARER, client_assertion: text, ...more }, options);
  }

  test.each([
    ["ES256", { alg: "ES256", kid: "ec" }, ec.privateKey],
    ["EdDSA", { alg: "EdDSA", kid: "ed" }, ed.privateKey],
    ["PS256", { alg: "PS256", kid: "rsa" }, rsa.privateKey],
    ["PS256 and a key for any algorithm", { alg: "PS256", kid: "any" }, rsa.privateKey],
  ])("issues a bound token for an assertion signed with %s", async (_name, header, key) => {
    const answer = await signIn(await assertion({ header, key }));
    expect(answer).toMatchObject({ status: 200 });
    expect(claims(answer)).toMatchObject({ sub: client.clientId, cv: 0, cnf: { "x5t#S256": x5t(pair) } });
  });

  test.each([
    ["the token endpoint", `${ISSUER}/v1/auth/token`],
    ["its alias", "https://mtls.service.example/v1/auth/token"],
    ["a list of only the issuer", [ISSUER]],
    ["a list of our names", [ISSUER, `${ISSUER}/v1/auth/token`]],
  ])("accepts an assertion for %s", async (_name, aud) => {
    expect(await signIn(await assertion({ claims: { aud } }), { client_id: client.clientId })).toMatchObject({
      status: 200,
    });
  });

  test("accepts an assertion once, even with simultaneous attempts", async () => {
    const text = await assertion();
    const answers = await Promise.all(Array.from({ length: 8 }, async () => await signIn(text)));
    expect(answers.map(({ status }) => status).toSorted((left, right) => left - right)).toEqual([
      200,
      ...Array.from({ length: 7 }, () => 401),
    ]);
  });

  const bad: readonly [string, () => Assertion, RegExp?][] = [
    ["of another client", () => ({ claims: { sub: `cl_${"b".repeat(24)}` } })],
    ["issued by another party", () => ({ claims: { iss: "somebody" } }), /: iss /],
    ["for another audience", () => ({ claims: { aud: "https://other.example" } }), /: aud /],
    [
      "for the issuer and another audience",
      () => ({ claims: { aud: [ISSUER, "https://other.example"] } }),
      /: aud /,
    ],
    ["that has expired", () => ({ claims: { exp: seconds() - 60 } }), /: exp is in the past\./],
    ["with a too long lifetime", () => ({ claims: { exp: seconds() + 4_000 } }), /: exp is more than 3600 /],
    ["without an expiry", () => ({ claims: { exp: undefined } }), /: exp /],
    ["without an id", () => ({ claims: { jti: undefined } }), /: jti /],
    ["with an empty id", () => ({ claims: { jti: "" } }), /: jti /],
    ["with an id that is not a string", () => ({ claims: { jti: 7 } }), /: jti /],
    ["that is not yet valid", () => ({ claims: { nbf: seconds() + 60 } }), /: nbf /],
    [
      "signed with another key",
      () => ({ key: generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey }),
    ],
    ["under an unknown key id", () => ({ header: { kid: "other" } })],
    [
      "with an algorithm that the key is not for",
      () => ({ header: { alg: "RS256", kid: "rsa" }, key: rsa.privateKey }),
    ],
    [
      "with an algorithm that the settings leave out",
      () => ({ header: { alg: "RS256", kid: "any" }, key: rsa.privateKey }),
    ],
    [
      "signed with HMAC and the public key",
      () => ({
        header: { alg: "HS256" },
        key: new TextEncoder().encode(ec.publicKey.export({ format: "pem", type: "spki" }) as string),
      }),
    ],
    ["with a critical header", () => ({ header: { crit: ["x"], x: 1 } })],
  ];
  test.each(bad)("issues no token for an assertion %s", async (_name, options, problem) => {
    const header = { ...options().header };
    delete header["crit"];
    const text = await assertion({ ...options(), header });
    const sent = options().header?.["crit"] === undefined ? text : withHeader(text, options().header ?? {});
    const answer = await signIn(sent);
    expect(answer).toMatchObject(REFUSED);
    // Only who has the key learns more.
    const { error_description: description } = answer.body as { readonly error_description: string };
    expect(description).toMatch(problem ?? /^Client authentication failed\.$/);
  });

  function withHeader(text: string, header: Record<string, unknown>): string {
    const [, payload, signature] = text.split(".");
    return [
      Buffer.from(JSON.stringify({ alg: "ES256", kid: "ec", ...header })).toString("base64url"),
      payload,
      signature,
    ].join(".");
  }

  test.each([
    ["nothing", "x"],
    [
      "no signature",
      `${Buffer.from('{"alg":"none"}').toString("base64url")}.${Buffer.from("{}").toString("base64url")}.`,
    ],
    ["too long", `a.${"b".repeat(5_000)}.c`],
  ])("issues no token for a malformed assertion (%s)", async (_name, text) => {
    expect(await signIn(text)).toMatchObject(REFUSED);
  });

  test.each([
    ["with an additional secret", { client_secret: "x" }, {}],
    ["with additional Basic credentials", {}, { authorization: "Basic YTpi" }],
    ["with another client id", { client_id: "cl_other" }, {}],
    [
      "of another type",
      { client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:saml2-bearer" },
      {},
    ],
  ])("answers invalid_request to an assertion %s", async (_name, more, headers) => {
    const answer = await signIn(await assertion(), more, {
      headers: { "content-type": "application/json", ...headers },
    });
    expect(answer).toMatchObject({ status: 400, body: { error: "invalid_request" } });
  });

  test.each([[5], [true], [{}], [["cl_other"]], [null], ["x".repeat(1_000)]])(
    "rejects an assertion whose sub is %j as any unknown client's",
    async (sub) => {
      const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
      const text = `${part({ alg: "ES256" })}.${part({ sub })}.AAAA`;
      expect(await signIn(text)).toMatchObject(REFUSED);
    },
  );

  test("also requires the registered certificate", async () => {
    expect(await signIn(await assertion(), {}, { pair: await clientPair(root) })).toMatchObject(REFUSED);
  });

  test("requires the key: the certificate alone is not sufficient", async () => {
    expect(await ask({ client_id: client.clientId })).toMatchObject(REFUSED);
  });

  test("forgets uses once the assertions have expired", async () => {
    await signIn(await assertion());
    api.clock.advance(400_000);
    await signIn(await assertion());
    const connection = new Client({ connectionString: api.database.adminUrl });
    await connection.connect();
    const { rows } = await connection.query<{ stale: number }>(
      "SELECT count(*)::int AS stale FROM client_assertions WHERE expires_at < $1",
      [new Date(api.clock.now())],
    );
    await connection.end();
    expect(rows[0]?.stale).toBe(0);
  });

  test.each([
    ["a private key", { keys: [jwk(ec.privateKey, { kid: "a" })] }],
    ["a symmetric key", { keys: [{ kty: "oct", k: "AAAA" }] }],
    [
      "an RSA key that is too short",
      { keys: [jwk(generateKeyPairSync("rsa", { modulusLength: 1_024 }).publicKey, {})] },
    ],
    [
      "a curve that is not supported",
      { keys: [jwk(generateKeyPairSync("ec", { namedCurve: "secp256k1" }).publicKey, {})] },
    ],
    ["a key that RFC 8037 prints", { keys: [PRINTED] }],
    [
      "a key whose algorithm the settings leave out",
      { keys: [jwk(generateKeyPairSync("ec", { namedCurve: "P-384" }).publicKey, {})] },
    ],
    ["an algorithm that does not fit the key", { keys: [jwk(ec.publicKey, { alg: "RS256" })] }],
    ["an encryption key", { keys: [jwk(ec.publicKey, { use: "enc" })] }],
    ["keys that share an id", { keys: [jwk(ec.publicKey, { kid: "a" }), jwk(ed.publicKey, { kid: "a" })] }],
    ["several keys, one without an id", { keys: [jwk(ec.publicKey, { kid: "a" }), jwk(ed.publicKey, {})] }],
    ["rubbish", { keys: [{ kty: "EC", crv: "P-256", x: "!", y: 1 }] }],
    ["no key", { keys: [] }],
    [
      "too many",
      { keys: Array.from({ length: 9 }, (_, index) => jwk(ec.publicKey, { kid: String(index) })) },
    ],
  ])("rejects the registration of %s", async (_name, jwks) => {
    const answer = await api.admin("POST", `/principals/${client.principalId}/credentials`, {
      rotation_mode: "workload",
      jwks,
      ...byThumbprint,
    });
    expect(answer).toMatchObject({ status: 422, body: { code: "VALIDATION_FAILED" } });
  });

  test("accepts keys only for workload credentials, which need a certificate or keys", async () => {
    const path = `/principals/${client.principalId}/credentials`;
    expect(await api.admin("POST", path, { jwks: { keys }, ...byThumbprint })).toMatchObject({ status: 422 });
    const development = await provision(api, { environment: "development" });
    expect(
      await api.admin("POST", `/principals/${development.principalId}/credentials`, {
        rotation_mode: "workload",
      }),
    ).toMatchObject({ status: 422 });
  });
});
