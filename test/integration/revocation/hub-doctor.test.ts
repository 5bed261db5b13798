/** `signet doctor` for an edge behind hubs: each fault between the two has its own answer. */
import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { type Environment, loadConfig } from "#config/config.ts";
import { createLogger } from "#observability/logger.ts";
import type { Finding } from "#processes/doctor/checks.ts";
import { examineHubs } from "#processes/doctor/hubs.ts";
import { type HubProcess, startHub } from "#processes/hub.ts";
import { useTestApi } from "#test/support/api.ts";
import { thumbprint, type HubSettings, writeHubCertificates } from "#test/support/certificates.ts";
import { freePort } from "#test/support/free-port.ts";
import { storeLeaseKeys } from "#test/support/hubs.ts";
import { startSignet } from "#test/support/signet-command.ts";

const KEY = randomBytes(32);
const api = useTestApi();
const log = createLogger({ level: "silent" });
const directory = mkdtempSync(join(tmpdir(), "signet-hub-doctor-"));
let ours: HubSettings;
let foreign: HubSettings;
let hub: HubProcess;

async function start(environment: Environment): Promise<HubProcess> {
  const settings = { SIGNET_ENV: "development", SIGNET_HUB_LISTEN: "127.0.0.1:0", ...ours.hub };
  return await startHub({ config: loadConfig({ ...settings, ...environment }, "hub"), log });
}

function edge(environment: Environment = {}): Environment {
  return {
    SIGNET_ENV: "development",
    SIGNET_HUBS: `wss://127.0.0.1:${hub.address.port}`,
    SIGNET_LEASE_KEY: KEY.toString("base64"),
    SIGNET_EDGE_API_URL: api.publicUrl,
    ...ours.edge,
    ...environment,
  };
}

async function findingOf(environment?: Environment): Promise<Finding | undefined> {
  const { hubs = [], ...config } = loadConfig(edge(environment), "edge");
  return (await examineHubs({ ...config, hubs }, log))[0];
}

beforeAll(async () => {
  await storeLeaseKeys(api.database, [KEY]);
  const theirs = join(directory, "theirs");
  mkdirSync(theirs);
  [ours, foreign] = [await writeHubCertificates(directory), await writeHubCertificates(theirs)];
  hub = await start({ SIGNET_DATABASE_URL: api.database.url });
});
afterAll(async () => {
  await hub.close();
  rmSync(directory, { recursive: true });
});

const FAULTS: readonly (readonly [string, () => Promise<Environment> | Environment, string])[] = [
  [
    "another lease key",
    () => ({ SIGNET_LEASE_KEY: randomBytes(32).toString("base64") }),
    "its proof has no code of SIGNET_LEASE_KEY",
  ],
  [
    "nothing that listens",
    async () => ({ SIGNET_HUBS: `wss://127.0.0.1:${await freePort()}` }),
    "check SIGNET_HUBS, that the hub runs",
  ],
  [
    "a hub of another CA",
    () => ({ SIGNET_HUB_CA_FILE: foreign.edge["SIGNET_HUB_CA_FILE"] }),
    "does not chain to SIGNET_HUB_CA_FILE",
  ],
  [
    "a hub of another name",
    () => ({ SIGNET_HUB_NAMES: "DNS:other.test" }),
    "none of the names in SIGNET_HUB_NAMES; it has DNS:hub.test",
  ],
  [
    "a certificate of a CA that the hub does not know",
    () => ({ ...foreign.edge, SIGNET_HUB_CA_FILE: ours.edge["SIGNET_HUB_CA_FILE"] }),
    "the hub does not accept this certificate",
  ],
  [
    "a name that the hub does not permit",
    async () => {
      const strict = await start({
        SIGNET_DATABASE_URL: api.database.url,
        SIGNET_HUB_NAMES: "DNS:other.test",
      });
      onTestFinished(async () => await strict.close());
      return { SIGNET_HUBS: `wss://127.0.0.1:${strict.address.port}` };
    },
    "add its name to SIGNET_HUB_NAMES of the hub",
  ],
  [
    "a hub that follows nothing",
    async () => {
      const lost = await start({ SIGNET_HUBS: `wss://127.0.0.1:${await freePort()}` });
      onTestFinished(async () => await lost.close());
      return { SIGNET_HUBS: `wss://127.0.0.1:${lost.address.port}` };
    },
    "it brings no proof",
  ],
  [
    "a server without TLS",
    async () => {
      const server = createServer((_request, response) => response.end());
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      onTestFinished(() => void server.close());
      return { SIGNET_HUBS: `wss://127.0.0.1:${(server.address() as AddressInfo).port}` };
    },
    "speaks no TLS",
  ],
];

test("a hub that works is found well, also by the command of an edge without a database", async () => {
  expect(await findingOf()).toMatchObject({
    check: "hub",
    ok: true,
    detail: expect.stringContaining("verifies"),
  });
  const { code, stdout } = await startSignet(["doctor", "--json"], edge()).ended;
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    ok: true,
    data: [
      { check: "hub", ok: true },
      { check: "files", ok: true },
    ],
  });
});

test.each(FAULTS)("%s is reported with its fix", async (_name, environment, detail) => {
  expect(await findingOf(await environment())).toEqual({
    check: "hub",
    ok: false,
    detail: expect.stringContaining(detail) as string,
  });
});

test("a revoked certificate of the edge is reported with its fix", async () => {
  const cert = readFileSync(join(directory, "edge.pem"), "utf8");
  const { status } = await api.admin("POST", "/revocations", { kind: "cert", target: thumbprint({ cert }) });
  expect(status).toBe(200);
  await expect
    .poll(async () => await findingOf(), { timeout: 50_000 })
    .toMatchObject({
      ok: false,
      detail: expect.stringContaining("check that this edge's certificate is not revoked"),
    });
});
