/** Operators who authenticate with a certificate, on a real TLS listener. */
import { Agent } from "node:https";
import { beforeAll, describe, expect, test } from "vitest";
import type { Environment } from "#config/config.ts";
import { clientPair, newRoot, thumbprint, today } from "#test/support/certificates.ts";
import { runSignet } from "#test/support/command-line.ts";
import { call, type CallOptions } from "#test/support/https-request.ts";
import { useTlsAdmin } from "#test/support/tls-admin.ts";

const SAN_URI = "spiffe://service.example/operator/ann";
const DAY_MS = 86_400_000;

const { api, root, files, ask, asBootstrap } = await useTlsAdmin();
const rogue = await newRoot();

const byThumbprint = await clientPair(root);
const byName = await clientPair(root, { sanUri: SAN_URI });

let reader: string;
let provisioner: string;

beforeAll(async () => {
  const make = async (body: unknown): Promise<string> => {
    const { status, body: operator } = await ask("/operators", asBootstrap(body));
    expect(status).toBe(201);
    return String(operator["id"]);
  };
  reader = await make({ name: "reader", role: "read", certificate_thumbprints: [thumbprint(byThumbprint)] });
  provisioner = await make({ name: "ann", role: "provision", san_uri: SAN_URI });
});

describe("an operator's certificate", () => {
  test("authenticates by thumbprint or SPIFFE id, with the operator's role and nothing more", async () => {
    expect(await ask("/tenants", { pair: byThumbprint })).toMatchObject({ status: 200 });
    const json = { name: "made by certificate", region: "eu" };
    expect(await ask("/tenants", { pair: byThumbprint, json })).toMatchObject({
      status: 403,
      body: { code: "SCOPE_VIOLATION", missing_role: "provision" },
    });
    expect(await ask("/tenants", { pair: byName, json })).toMatchObject({ status: 201 });
    const { body } = await ask(`/audit?limit=1&actor=operator:${provisioner}`, { pair: byName });
    expect(body["data"]).toMatchObject([{ type: "tenant.created" }]);
  });

  test("signs a browser in to the console, and each of its requests must present it", async () => {
    const console = { port: api.adminPort, ca: root.cert };
    const headers = { "content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin" };
    const signIn = async (pair?: typeof byName) =>
      await call("/portal/operator/sign-in", { ...console, method: "POST", headers, pair });
    const opened = await signIn(byName);
    expect(opened.status).toBe(303);
    const [cookie = ""] = String(opened.headers["set-cookie"]).split(";");
    const overview = async (pair?: typeof byName) =>
      await call("/portal/operator", { ...console, headers: { cookie }, pair });
    expect((await overview(byName)).status).toBe(200);
    expect((await overview(byThumbprint)).status).toBe(401);
    expect((await overview()).status).toBe(401);
    expect((await signIn(await clientPair(root))).status).toBe(401);
    expect((await signIn()).status).toBe(401);
  });

  const refused: readonly [string, () => Promise<CallOptions>, string][] = [
    ["missing", async () => ({}), "TOKEN_MISSING"],
    ["one of no operator", async () => ({ pair: await clientPair(root) }), "TOKEN_INVALID"],
    [
      "from a rogue authority of the same name, with the right SPIFFE id",
      async () => ({ pair: await clientPair(rogue, { sanUri: SAN_URI }) }),
      "TOKEN_MISSING",
    ],
    [
      "expired",
      async () => {
        const { notBefore } = today();
        const notAfter = new Date(Date.now() - 1_000);
        return { pair: await clientPair(root, { sanUri: SAN_URI, notBefore, notAfter }) };
      },
      "TOKEN_MISSING",
    ],
    [
      "a server certificate",
      async () => ({ pair: await clientPair(root, { sanUri: SAN_URI, purposes: ["serverAuth"] }) }),
      "TOKEN_MISSING",
    ],
  ];
  test.each(refused)("is rejected if it is %s", async (_name, options, code) => {
    expect(await ask("/tenants", await options())).toMatchObject({ status: 401, body: { code } });
  });

  test("does not make up for a wrong token", async () => {
    const headers = { authorization: `Bearer ${"x".repeat(64)}` };
    expect(await ask("/tenants", { pair: byName, headers })).toMatchObject({
      status: 401,
      body: { code: "TOKEN_INVALID" },
    });
  });

  test("in a header is ignored", async () => {
    expect(await ask("/tenants", { headers: { "client-cert": ":AAAA:" } })).toMatchObject({ status: 400 });
  });

  test("expires although the connection is open", async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: root.cert, ...byName });
    expect(await ask("/tenants", { agent })).toMatchObject({ status: 200 });
    api.clock.advance(400 * DAY_MS);
    expect(await ask("/tenants", { agent })).toMatchObject({ status: 401, body: { code: "TOKEN_MISSING" } });
    api.clock.advance(-400 * DAY_MS);
    agent.destroy();
  });

  test("is rejected once the operator is revoked or has another certificate", async () => {
    const other = await clientPair(root);
    const body = { certificate_thumbprints: [thumbprint(other)] };
    await ask(`/operators/${reader}`, { ...asBootstrap(body), method: "PATCH" });
    expect(await ask("/tenants", { pair: byThumbprint })).toMatchObject({ status: 401 });
    expect(await ask("/tenants", { pair: other })).toMatchObject({ status: 200 });
    await ask(`/operators/${reader}/revoke`, asBootstrap({}));
    expect(await ask("/tenants", { pair: other })).toMatchObject({ status: 401 });
  });

  test("that two operators have registered authenticates neither", async () => {
    const shared = await clientPair(root);
    for (const name of ["twin", "other twin"]) {
      const certificate_thumbprints = [thumbprint(shared)];
      const json = { name, role: "read", certificate_thumbprints };
      expect(await ask("/operators", asBootstrap(json))).toMatchObject({ status: 201 });
    }
    expect(await ask("/tenants", { pair: shared })).toMatchObject({
      status: 401,
      body: { code: "TOKEN_INVALID" },
    });
  });
});

test("plain HTTP is not answered if TLS is configured", async () => {
  await expect(fetch(`${api.adminUrl}/admin/v1/tenants`)).rejects.toThrow("fetch failed");
});

test("the command line trusts the listener's authority also with only a token", async () => {
  const environment: Environment = {
    SIGNET_HOME: files.path("home"),
    SIGNET_ADMIN_URL: `https://127.0.0.1:${api.adminPort}`,
    SIGNET_ADMIN_CA_FILE: files.write("ca.crt", root.cert),
    SIGNET_OPERATOR_TOKEN: api.operatorToken,
  };
  const { code, stdout, stderr } = await runSignet(["operator", "show", provisioner, "--json"], environment);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(JSON.parse(stdout)).toMatchObject({ id: provisioner });
});

test("the command line works with a certificate and no token", async () => {
  const environment: Environment = {
    SIGNET_HOME: files.path("home"),
    SIGNET_ADMIN_URL: `https://127.0.0.1:${api.adminPort}`,
    SIGNET_ADMIN_CA_FILE: files.write("ca.crt", root.cert),
    SIGNET_OPERATOR_KEY_FILE: files.write("ann.key", byName.key),
    SIGNET_OPERATOR_CERT_FILE: files.write("ann.crt", byName.cert),
  };
  const { code, stdout, stderr } = await runSignet(["operator", "show", provisioner, "--json"], environment);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(JSON.parse(stdout)).toMatchObject({ id: provisioner, role: "provision", san_uri: SAN_URI });
});
