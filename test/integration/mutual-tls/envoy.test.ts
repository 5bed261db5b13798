/** docs/proxies/envoy.yaml in a real Envoy (1.40 at the time of writing) before a real api. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { KeyPair } from "#http/mutual-tls/authority.ts";
import { useTestApi } from "#test/support/api.ts";
import {
  certificateFiles,
  clientPair,
  headerValue,
  newRoot,
  today,
  x5t,
} from "#test/support/certificates.ts";
import { startEnvoy, withoutEnvoy } from "#test/support/envoy.ts";
import { grant, provision, type Provisioned } from "#test/support/factories.ts";
import { call, type CallAnswer } from "#test/support/https-request.ts";
import { allowMinutes } from "#test/support/limits.ts";
import type { SpawnedProcess } from "#test/support/processes.ts";

allowMinutes(2);

const EDGE = "spiffe://example/edge";
const clients = await newRoot("Clients");
const rogue = await newRoot("Clients");
const proxies = await newRoot("Proxies");
const servers = await newRoot("Servers");
const server = async (name: string) =>
  await servers.issue({
    subject: `CN=${name}`,
    names: [
      { type: "dns", value: name },
      { type: "ip", value: "127.0.0.1" },
    ],
    purposes: ["serverAuth"],
    ...today(),
  });
const [client, other, stranger] = [
  await clientPair(clients),
  await clientPair(clients),
  await clientPair(rogue),
];
const [front, back, proxy] = [
  await server("localhost"),
  await server("signet.internal"),
  await clientPair(proxies, { sanUri: EDGE }),
];
const files = certificateFiles();

describe.skipIf(withoutEnvoy("docs/proxies/envoy.yaml in a real Envoy"))("docs/proxies/envoy.yaml", () => {
  const api = useTestApi({
    environment: {
      SIGNET_MTLS_MODE: "proxy",
      SIGNET_TLS_KEY_FILE: files.write("signet.key", back.key),
      SIGNET_TLS_CERT_FILE: files.write("signet.crt", back.cert),
      SIGNET_CLIENT_CA_FILE: files.write("clients.crt", clients.cert),
      SIGNET_PROXY_CA_FILE: files.write("proxies.crt", proxies.cert),
      SIGNET_PROXY_NAMES: `URI:${EDGE}`,
      SIGNET_TRUSTED_PROXIES: "127.0.0.1/32",
    },
  });
  let running: SpawnedProcess;
  let port: number;
  let provisioned: Provisioned;

  beforeAll(async () => {
    files.write("server.key", front.key);
    files.write("server.crt", front.cert);
    files.write("proxy.key", proxy.key);
    files.write("proxy.crt", proxy.cert);
    files.write("signet-ca.crt", servers.cert);
    ({ port, running } = await startEnvoy("envoy.yaml", files, {
      "address: signet.internal, port_value: 8443": `address: 127.0.0.1, port_value: ${api.edgePort}`,
    }));
    provisioned = await provision(api, { environment: "development" });
  });

  afterAll(async () => {
    await running.stop();
    files.remove();
  });

  async function token(pair: KeyPair | undefined, forged: readonly string[] = []): Promise<CallAnswer> {
    const usual = ["Host", "localhost", "Content-Type", "application/json"];
    return await call("/v1/auth/token", {
      port,
      ca: servers.cert,
      pair,
      json: grant(provisioned),
      rawHeaders: [...usual, ...forged],
    });
  }

  function boundTo({ body }: CallAnswer): unknown {
    const claims = Buffer.from(String(body["access_token"]).split(".")[1] ?? "", "base64url").toString();
    return (JSON.parse(claims) as { cnf?: Record<string, unknown> }).cnf?.["x5t#S256"];
  }

  test("forwards the client's certificate, and the token is bound to it", async () => {
    const answer = await token(client);
    expect(answer, running.output()).toMatchObject({ status: 200 });
    expect(boundTo(answer)).toBe(x5t(client));
  });

  const required = { status: 401, body: { code: "CLIENT_CERT_REQUIRED" } };

  test("forwards no certificate for a client without one", async () => {
    expect(await token(undefined)).toMatchObject(required);
  });

  const FORGED: readonly (readonly [string, readonly string[]])[] = [
    ["Client-Cert", ["Client-Cert", headerValue(client)]],
    ["CLIENT-CERT, twice", ["CLIENT-CERT", headerValue(client), "client-cert", headerValue(client)]],
    ["Client-Cert-Chain", ["Client-Cert-Chain", headerValue(clients), "Client-Cert", headerValue(client)]],
    ["an empty Client-Cert", ["Client-Cert", "", "Client-Cert", headerValue(client)]],
    ["X-Forwarded-Client-Cert", ["X-Forwarded-Client-Cert", `Cert="${encodeURIComponent(client.cert)}"`]],
  ];

  test.each(FORGED)("removes %s of a client without a certificate", async (_name, forged) => {
    expect(await token(undefined, forged)).toMatchObject(required);
  });

  test.each(FORGED)("replaces %s with the client's own certificate", async (_name, forged) => {
    const answer = await token(other, forged);
    expect(answer).toMatchObject({ status: 200 });
    expect(boundTo(answer)).toBe(x5t(other));
  });

  test("rejects header names with underscores, which some servers read as hyphens", async () => {
    const answer = await token(client, ["Client_Cert", headerValue(other)]);
    expect(answer.status).toBe(400);
  });

  test("rejects a client whose certificate is from another CA of the same name", async () => {
    await expect(token(stranger)).rejects.toThrow(/alert|reset|hang up/);
  });
});
