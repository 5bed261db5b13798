/** What a hub grants the connections with one certificate, in simulated time: others notice nothing of them. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { FollowerNews } from "#revocation/follower-reports.ts";
import { Hub } from "#revocation/hub.ts";
import { HUB_PROTOCOL, type HubConnection } from "#revocation/hub-messages.ts";
import { ModelPrimary } from "#test/support/model-primary.ts";
import { createLogger } from "#observability/logger.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

const LEASE_MS = 240;
const HOSTILE = 100;
const nonce = (letter: string) => ({ type: "nonce", nonce: letter.repeat(43) });

let time: SimulatedTime;
let hub: Hub;
let reported: FollowerNews[];

beforeEach(() => {
  time = new SimulatedTime();
  const model = new ModelPrimary();
  reported = [];
  hub = new Hub({
    upstream: {
      ask: async (root) =>
        await Promise.resolve({
          proof: model.proofOf(root.toString("hex")),
          trees: [],
          lines: [],
          keys: undefined,
        }),
      snapshot: async () => await Promise.resolve(model.snapshot()),
      relayed: () => undefined,
      report: async (followers) => await Promise.resolve(void reported.push(...followers)),
      reportLost: async () => await Promise.resolve(),
    },
    leaseMs: LEASE_MS,
    timers: time,
    log: createLogger({ level: "silent" }),
  });
  hub.start();
});
afterEach(() => {
  hub.stop();
});

/** Connects with a certificate, without the delays of a wire. */
function connect(certificate: string, more: Partial<HubConnection> = {}) {
  const seen = { sent: [] as string[], paused: false, closed: false };
  const child = hub.accept({
    certificate,
    backlog: 0,
    send: (text) => void seen.sent.push(text),
    pause: (paused) => void (seen.paused = paused),
    close: () => void (seen.closed = true),
    ...more,
  });
  return { seen, say: (message: object) => child?.onMessage(JSON.stringify(message)) };
}

function follow(lockKey: number) {
  const follower = { lockKey, process: "edge", region: "eu", version: "1", leaseMs: LEASE_MS };
  return { type: "follow", version: HUB_PROTOCOL, follower };
}

test("a question carries the latest nonce of each process, however many others send", async () => {
  const hostile = Array.from({ length: HOSTILE }, () => connect("hostile"));
  for (let sent = 0; sent < 12; sent += 1) {
    hostile.forEach(({ say }) => say(nonce("h")));
  }
  const honest = connect("honest");
  honest.say(nonce("A"));
  await time.advance(100);
  expect(honest.seen.sent.some((text) => text.includes("A".repeat(43)))).toBe(true);
});

test("messages beyond a certificate's share are read later, those of others at once", async () => {
  const hostile = Array.from({ length: 10 }, () => connect("hostile"));
  const honest = connect("honest");
  for (let sent = 0; sent < 500; sent += 1) {
    hostile.forEach(({ say }) => say({ type: "lines", after: 0 }));
  }
  expect(hostile.every(({ seen }) => seen.paused && !seen.closed)).toBe(true);
  expect(honest.seen.paused).toBe(false);
  await time.advance(1_000);
  expect(hostile.some(({ seen }) => seen.paused)).toBe(false);
});

test("a process that sends more than a thousand messages in a second is disconnected, a hub is not", () => {
  const [edge, below] = [connect("edge"), connect("hub", { relays: true })];
  for (let sent = 0; sent < 1_001; sent += 1) {
    edge.say({ type: "applied", lockKey: 1, sequence: sent, sinceMs: 0 });
    below.say({ type: "applied", lockKey: 1, sequence: sent, sinceMs: 0 });
  }
  expect([edge.seen.closed, below.seen.closed, below.seen.paused]).toEqual([true, false, false]);
});

test("a process that reads too slowly is disconnected, once too much waits for its certificate", () => {
  const slow = Array.from({ length: 9 }, () => connect("hostile", { backlog: 500_000 }));
  slow[0]?.say({ type: "lines", after: 0 });
  const alone = connect("honest", { backlog: 500_000 });
  alone.say({ type: "lines", after: 0 });
  expect([slow[0]?.seen.closed, slow[1]?.seen.closed, alone.seen.closed]).toEqual([true, false, false]);
});

test("a connection introduces its own process, that of a hub those behind it", async () => {
  const [edge, below] = [connect("edge"), connect("hub", { relays: true })];
  for (const lockKey of [1, 2, 1, 3]) {
    edge.say(follow(lockKey));
    below.say(follow(10 + lockKey));
  }
  await time.advance(50);
  expect(new Set(reported.map(({ lockKey }) => lockKey))).toEqual(new Set([1, 11, 12, 13]));
});

test("a certificate introduces 200 processes in two minutes, however often it connects", async () => {
  for (let lockKey = 0; lockKey < 300; lockKey += 1) {
    connect("hostile").say(follow(lockKey));
  }
  await time.advance(50);
  expect(new Set(reported.map(({ lockKey }) => lockKey)).size).toBe(200);
  await time.advance(120_000);
  connect("hostile").say(follow(1_000));
  await time.advance(50);
  expect(reported.some(({ lockKey }) => lockKey === 1_000)).toBe(true);
});
