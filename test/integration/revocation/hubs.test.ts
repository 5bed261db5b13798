/** Revocations through a hub: the real primary, the real hub and follower; only the wire between the two is in memory. */
import { randomBytes, randomInt } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { type Config, type Environment, loadConfig } from "#config/config.ts";
import { systemClock } from "#runtime/machine-timers.ts";
import type { HubFollower } from "#revocation/hub-follower.ts";
import type { Hub } from "#revocation/hub.ts";
import { HUB_PROTOCOL, type OpenHubConnection } from "#revocation/hub-messages.ts";
import { type HubProcess, startHub } from "#processes/hub.ts";
import { hubTls, openHubFiles } from "#processes/certificate-files.ts";
import { createHubOpener, type HubTls } from "#revocation/hub-socket.ts";
import { createLogger } from "#observability/logger.ts";
import { useTestApi } from "#test/support/api.ts";
import { thumbprint, type HubSettings, writeHubCertificates } from "#test/support/certificates.ts";
import { startDistantProxy } from "#test/support/distant-proxy.ts";
import { useTestEdge } from "#test/support/edge.ts";
import { eventually } from "#test/support/eventually.ts";
import { accessToken, bearer, provision } from "#test/support/factories.ts";
import { call } from "#test/support/https-request.ts";
import { withoutPause } from "#test/support/pauses.ts";
import { sql } from "#test/support/tenant.ts";
import { claimsOf, createFollower, openHub, storeLeaseKeys } from "#test/support/hubs.ts";

const KEY = randomBytes(32);
const api = useTestApi();
const log = createLogger({ level: "warn", destination: { write: (line) => void lines.push(line) } });
const lines: string[] = [];
let hub: Hub;
let close: () => Promise<void>;

/** A wire that delivers in order, each message in a turn of its own. */
const open: OpenHubConnection = async (_url, handlers) => {
  const peer = hub.accept({
    send: (text) => void setImmediate(() => handlers.onMessage(text)),
    backlog: 0,
    close: () => void setImmediate(() => handlers.onClose()),
  });
  return await Promise.resolve({
    send: (text) => void setImmediate(() => peer?.onMessage(text)),
    backlog: 0,
    close: () => void setImmediate(() => peer?.onClose()),
  });
};

function follower(options: Partial<Parameters<typeof createFollower>[0]> = {}): HubFollower {
  return createFollower({ keys: [KEY], hub: "in memory", open, log, ...options });
}

beforeAll(async () => {
  await storeLeaseKeys(api.database, [KEY]);
  ({ hub, close } = await openHub(api.database, log));
});
afterAll(async () => await close());

test("a follower behind a hub admits under a lease, and applies a revocation", async () => {
  const following = follower();
  await following.start();
  await withoutPause(async () => {
    const client = await provision(api);
    await eventually(
      async () => (await following.renew()) && following.view.verdict(claimsOf(client)) === "admit",
      "the token to be admitted",
    );
    const answer = await api.admin("POST", `/credentials/${client.credentialId}/revoke`, {});
    expect(answer).toMatchObject({ status: 200, body: { edges: { outcome: "applied" } } });
    expect(following.view.verdict(claimsOf(client))).toBe("revoked");
  });
  await following.stop();
});

test("a step of the wall clock ends the lease, and the next request has it renewed", async () => {
  let offsetMs = 0;
  const following = follower({ clock: { now: () => systemClock.now() + offsetMs } });
  await following.start();
  for (const stepMs of [600_000, -600_000, 0, 1_000, 0]) {
    offsetMs = stepMs;
    expect(following.view.current).toBe(false);
    await eventually(async () => await following.renew(), "the lease to be renewed");
  }
  await following.stop();
});

test("a follower that connected again stays in receipts when its earlier connection ends", async () => {
  const connection = { send: () => undefined, backlog: 0, close: () => undefined };
  const identity = { lockKey: randomInt(2 ** 31), process: "edge", region: "eu", version: "1", leaseMs: 240 };
  const [earlier, later] = [hub.accept(connection), hub.accept(connection)];
  for (const each of [earlier, later]) {
    each?.onMessage(JSON.stringify({ type: "follow", version: HUB_PROTOCOL, follower: identity }));
  }
  earlier?.onClose();
  const { lockKey } = identity;
  later?.onMessage(JSON.stringify({ type: "applied", lockKey, sequence: 7, sinceMs: 0 }));
  await eventually(async () => {
    const [row] = await sql<{ via: number | null; seq: string }>(
      api,
      "SELECT via, seq FROM revocation_followers WHERE lock_key = $1",
      [lockKey],
    );
    return row !== undefined && row.via !== null && Number(row.seq) === 7;
  }, "the follower to be reported");
  later?.onMessage(JSON.stringify({ type: "gone", lockKey, stopped: true }));
  later?.onClose();
});

test("a head that was moved at the same number is read anew, and later revocations apply", async () => {
  const following = follower();
  await following.start();
  await eventually(async () => await following.renew(), "a proof");
  const client = await provision(api);
  await sql(api, "UPDATE rev_clock SET head = sha256(head)", []);
  const isRead = () => lines.some((line) => line.includes("the revocations lead elsewhere"));
  await eventually(isRead, "the hub to notice");
  await eventually(async () => (await following.renew()) && following.view.current, "a new lease", 10_000);
  await api.admin("POST", `/credentials/${client.credentialId}/revoke`, {});
  expect(following.view.verdict(claimsOf(client))).toBe("revoked");
  await following.stop();
});

test("a follower with another key admits nothing", async () => {
  const following = follower({ keys: [randomBytes(32)] });
  await following.start();
  expect(following.view.current).toBe(false);
  await eventually(async () => lines.some((line) => line.includes("code of a")), "the fault to be logged");
  await following.stop();
});

describe("processes", () => {
  const directory = mkdtempSync(join(tmpdir(), "signet-hubs-"));
  let certificates: HubSettings;
  let home: HubProcess;
  let regional: HubProcess;

  const config = (environment: Environment): Config =>
    loadConfig(
      {
        SIGNET_ENV: "development",
        SIGNET_HUB_LISTEN: "127.0.0.1:0",
        ...certificates.hub,
        ...environment,
      },
      "hub",
    );

  beforeAll(async () => {
    certificates = await writeHubCertificates(directory);
    home = await startHub({
      config: config({ SIGNET_DATABASE_URL: api.database.url, SIGNET_REGION: "eu" }),
      log,
    });
    regional = await startHub({
      config: config({ SIGNET_HUBS: `wss://127.0.0.1:${home.address.port}`, SIGNET_REGION: "ap" }),
      log,
    });
  });
  afterAll(async () => {
    await regional.close();
    await home.close();
    rmSync(directory, { recursive: true });
  });

  const edge = useTestEdge(api, {
    environment: () => ({
      SIGNET_REGION: "ap",
      SIGNET_HUBS: `wss://127.0.0.1:${regional.address.port}`,
      SIGNET_LEASE_KEY: KEY.toString("base64"),
      ...certificates.edge,
    }),
  });

  test("an edge behind two hubs checks tokens without a database, and a receipt names all three", async () => {
    const ask = async (token: string) =>
      await call("/v1/inference/m", { port: edge.port, headers: bearer(token) });
    await withoutPause(async () => {
      const client = await provision(api, { scopes: ["inference:read"] });
      const token = await accessToken(api, client);
      expect(await ask(token)).toMatchObject({ status: 200 });
      const { body } = await api.admin("POST", `/credentials/${client.credentialId}/revoke`, {});
      const processes = (body["edges"] as { processes: { kind: string; region: string; state: string }[] })
        .processes;
      expect(processes.filter(({ region }) => region === "ap" || region === "eu")).toEqual(
        expect.arrayContaining([
          expect.objectContaining({ kind: "edge", region: "ap", state: "applied" }),
          expect.objectContaining({ kind: "hub", region: "ap", state: "applied" }),
          expect.objectContaining({ kind: "hub", region: "eu", state: "applied" }),
        ]),
      );
      expect(await ask(token)).toMatchObject({ status: 401 });
    });
  });

  test("a connection without a permitted certificate is refused", async () => {
    const stranger = createHubOpener(() => undefined);
    const handlers = { onMessage: () => undefined, onClose: () => undefined };
    await expect(stranger(`wss://127.0.0.1:${home.address.port}`, handlers)).rejects.toThrow(/certificate/);
    await expect(stranger(`ws://127.0.0.1:${home.address.port}`, handlers)).rejects.toThrow(
      /socket hang up|ECONNRESET/,
    );
  });

  test.each([
    ["a padded nonce", { type: "nonce", nonce: `${"A".repeat(43)}${"!".repeat(50)}` }],
    ["a short nonce", { type: "nonce", nonce: "A".repeat(42) }],
    ["more than 4 KiB", { type: "lines", after: 0, more: "!".repeat(4_096) }],
  ])("%s ends the connection of an edge, and of no other", async (_what, message) => {
    const own = config({ SIGNET_DATABASE_URL: api.database.url, ...certificates.edge });
    const opened = await openHubFiles(own, log);
    const url = `wss://127.0.0.1:${home.address.port}`;
    const opener = createHubOpener(() => hubTls(own, opened));
    const states = { hostile: "open", other: "open" };
    const connect = async (name: keyof typeof states) =>
      await opener(url, { onMessage: () => undefined, onClose: () => void (states[name] = "closed") });
    const [hostile, other] = await Promise.all([connect("hostile"), connect("other")]);
    hostile.send(JSON.stringify(message));
    await eventually(() => states.hostile === "closed", "the end of the connection");
    expect(states.other).toBe("open");
    other.close();
    opened?.close();
  });
});

describe("a revoked certificate", () => {
  const directory = mkdtempSync(join(tmpdir(), "signet-revoked-hubs-"));
  afterAll(() => rmSync(directory, { recursive: true }));
  let certificates: HubSettings;
  let tls: HubTls | undefined;

  const hubConfig = (): Config =>
    loadConfig(
      {
        SIGNET_ENV: "development",
        SIGNET_HUB_LISTEN: "127.0.0.1:0",
        SIGNET_DATABASE_URL: api.database.url,
        ...certificates.hub,
      },
      "hub",
    );
  const start = async (): Promise<HubProcess> => {
    const running = await startHub({ config: hubConfig(), log });
    onTestFinished(async () => await running.close());
    return running;
  };
  const follow = async ({ address }: HubProcess): Promise<HubFollower> => {
    const following = follower({
      open: createHubOpener(() => tls),
      hub: `wss://127.0.0.1:${address.port}`,
    });
    onTestFinished(async () => await following.stop());
    await following.start();
    return following;
  };
  const revoke = async (name: string): Promise<void> => {
    const cert = readFileSync(join(directory, `${name}.pem`), "utf8");
    const { status } = await api.admin("POST", "/revocations", {
      kind: "cert",
      target: thumbprint({ cert }),
    });
    expect(status).toBe(200);
  };

  beforeEach(async () => {
    certificates = await writeHubCertificates(directory);
    const config = loadConfig(
      { SIGNET_ENV: "development", SIGNET_DATABASE_URL: api.database.url, ...certificates.edge },
      "hub",
    );
    const opened = await openHubFiles(config, log);
    onTestFinished(() => opened?.close());
    tls = hubTls(config, opened);
  });

  test("of an edge is refused by a hub, also by one that starts later", async () => {
    const hub = await start();
    const following = await follow(hub);
    await eventually(async () => await following.renew(), "the edge to follow");
    await revoke("edge");
    await eventually(async () => !(await following.renew()), "the hub to end the connection");
    const later = await start();
    const again = await follow(later);
    await eventually(async () => !(await again.renew()), "the other hub to end the connection");
    expect([await following.renew(), await again.renew()]).toEqual([false, false]);
  });

  test("of a hub is refused by its edges", async () => {
    const following = await follow(await start());
    await eventually(async () => await following.renew(), "the edge to follow");
    await revoke("hub");
    await eventually(async () => !(await following.renew()), "the edge to leave");
    expect(await following.renew()).toBe(false);
  });
});

test("at a distance, with lost packets, a follower keeps its lease", async () => {
  const distance = { roundTripMs: 120, jitterMs: 5, loss: 0.01, random: Math.random };
  const proxy = await startDistantProxy(Number(new URL(api.database.url).port), distance);
  const url = new URL(api.database.url);
  url.port = String(proxy.port);
  const distant = await startHub({
    config: loadConfig(
      { SIGNET_ENV: "development", SIGNET_DATABASE_URL: url.href, SIGNET_HUB_LISTEN: "127.0.0.1:0" },
      "hub",
    ),
    log,
  });
  const following = follower({
    open: createHubOpener(() => undefined),
    hub: `ws://127.0.0.1:${distant.address.port}`,
  });
  try {
    await following.start();
    const client = await provision(api);
    await withoutPause(async () => {
      let current = 0;
      for (let look = 0; look < 100; look += 1) {
        current += (await following.renew()) ? 1 : 0;
        await delay(20);
      }
      expect(current).toBeGreaterThan(90);
    });
    await api.admin("POST", `/credentials/${client.credentialId}/revoke`, {});
    await eventually(
      async () => await Promise.resolve(following.view.verdict(claimsOf(client)) === "revoked"),
      "the revocation to arrive",
    );
  } finally {
    await following.stop();
    await distant.close();
    await proxy.close();
  }
});
