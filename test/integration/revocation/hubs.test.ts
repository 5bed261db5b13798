/** Revocations through a hub: the real primary, the real hub and follower; only the wire between the two is in memory. */
import { randomBytes, randomInt } from "node:crypto";
import { Client } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { setLeaseKeys } from "../../../src/database/repositories/tokens/lease-keys.ts";
import { REVOCATION_LINES_CHANNEL } from "../../../src/database/repositories/tokens/revocations.ts";
import { subscribe } from "../../../src/database/subscription.ts";
import { monotonic, systemClock } from "../../../src/domain/clock.ts";
import { HubFollower } from "../../../src/revocation/hub-follower.ts";
import { Hub } from "../../../src/revocation/hub.ts";
import type { OpenHubConnection } from "../../../src/revocation/hub-messages.ts";
import { Primary } from "../../../src/revocation/primary.ts";
import { createCodeCheck } from "../../../src/revocation/proof.ts";
import { createLogger } from "../../../src/observability/logger.ts";
import { useTestApi } from "../../support/api.ts";
import { eventually } from "../../support/eventually.ts";
import { provision } from "../../support/factories.ts";

const LEASE_MS = 240;
const KEY = randomBytes(32);
const api = useTestApi();
const log = createLogger({ level: "warn", destination: { write: (line) => void lines.push(line) } });
const lines: string[] = [];
let primary: Primary;
let hub: Hub;

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

function follower(keys = [KEY], openHub = open): HubFollower {
  return new HubFollower({
    hubs: ["a"],
    open: openHub,
    checkCode: createCodeCheck(keys),
    identity: { lockKey: randomInt(2 ** 31), process: "edge", region: "eu" },
    leaseMs: LEASE_MS,
    onKeys: () => undefined,
    clock: systemClock,
    monotonic,
    randomBytes,
    log,
  });
}

beforeAll(async () => {
  const owner = new Client({ connectionString: api.database.adminUrl });
  await owner.connect();
  await setLeaseKeys(owner, [KEY]);
  await owner.end();
  primary = new Primary({
    subscribe: async (handlers) =>
      await subscribe({
        ...handlers,
        url: api.database.url,
        role: "signet_edge",
        channel: REVOCATION_LINES_CHANNEL,
        idleMs: 5_000,
        pipeline: true,
      }),
    identity: { lockKey: randomInt(2 ** 31), process: "hub", region: "eu", leaseMs: LEASE_MS },
    onLine: (line, state) => hub.hear(line, state),
    monotonic,
    log,
  });
  hub = new Hub({ upstream: primary, leaseMs: LEASE_MS, monotonic, log });
  await primary.start();
  hub.start();
});
afterAll(async () => {
  hub.stop();
  await primary.stop();
});

test("a follower behind a hub admits under a lease, and applies a revocation", async () => {
  const following = follower();
  await following.start();
  expect(following.view.current).toBe(true);
  const client = await provision(api);
  const answer = await api.admin("POST", `/credentials/${client.credentialId}/revoke`, {});
  expect(answer).toMatchObject({ status: 200 });
  expect(answer.body["edges"]).toMatchObject({ outcome: "applied" });
  expect(
    following.view.verdict({
      credentialId: client.credentialId,
      principalId: "prn_x",
      tenantId: "ten_x",
      jti: "x",
      kid: "x",
      issuedAt: 0,
      certificateThumbprint: undefined,
    }),
  ).toBe("revoked");
  await following.stop();
});

test("a follower with another key admits nothing", async () => {
  const following = follower([randomBytes(32)]);
  await following.start();
  expect(following.view.current).toBe(false);
  await eventually(async () => lines.some((line) => line.includes("code of a")), "the fault to be logged");
  await following.stop();
});
