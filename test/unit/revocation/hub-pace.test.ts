/** How often a follower behind hubs has a lease, at every distance: the real hubs and follower in simulated time. */
import { hash } from "node:crypto";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createLogger } from "../../../src/observability/logger.ts";
import { HubFollower } from "../../../src/revocation/hub-follower.ts";
import { Hub, type HubAnswer, type Upstream } from "../../../src/revocation/hub.ts";
import type { HubConnectionHandlers, OpenHubConnection } from "../../../src/revocation/hub-messages.ts";
import { leaseStatement, snapshotStatement } from "../../../src/revocation/proof.ts";

const LEASE_MS = 240;
const STATE = { epoch: "e", sequence: 0, head: "00".repeat(32) };
const KEYS = "[]";
const SECONDS = 30;
/** A request waits this long for a lease. */
const WAIT_MS = 100;
const log = createLogger({ level: "silent" });
const monotonic = (): number => performance.now();

beforeEach(() => {
  const toFake = [
    "setTimeout",
    "clearTimeout",
    "setInterval",
    "clearInterval",
    "setImmediate",
    "performance",
  ];
  vi.useFakeTimers({ toFake: toFake as [] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Numbers in [0, 1), the same in each run. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
}

/** A primary at a distance, whose code of a statement is the statement. */
function distantPrimary(roundTripMs: number, random: () => number): Upstream {
  const nothing = async (): Promise<void> => await Promise.resolve();
  return {
    ask: async (nonce, known) =>
      await new Promise<HubAnswer>((resolve) => {
        setTimeout(
          () => {
            const proof = { ...STATE, keysDigest: hash("sha256", KEYS), atUs: 1, codes: "" };
            const codes = leaseStatement(proof, nonce.toString("hex"));
            const keys = known.keysDigest === proof.keysDigest ? undefined : KEYS;
            resolve({ proof: { ...proof, codes }, trees: [], lines: [], keys });
          },
          roundTripMs + 10 * random() - 5,
        );
      }),
    snapshot: async () => {
      const snapshot = { ...STATE, lines: "", codes: "" };
      return await Promise.resolve({ ...snapshot, codes: snapshotStatement(snapshot) });
    },
    relayed: () => undefined,
    report: nothing,
    lose: nothing,
  };
}

/** A wire in memory to hubs that are named by their numbers. */
function wireTo(hubs: readonly Hub[], frozen: ReadonlySet<string>): OpenHubConnection {
  return async (url, handlers: HubConnectionHandlers) => {
    const peer = hubs[Number(url)]?.accept({
      send: (text) => void (frozen.has(url) || setTimeout(() => handlers.onMessage(text), 1)),
      backlog: 0,
      close: () => undefined,
    });
    return await Promise.resolve({
      send: (text) => void setTimeout(() => peer?.onMessage(text), 1),
      backlog: 0,
      close: () => undefined,
    });
  };
}

/** Follows for half a minute. @returns the share of time without a lease, and its longest stretch in milliseconds */
async function followed(roundTripMs: number, hubCount: number, frozen: ReadonlySet<string> = new Set()) {
  const random = seeded(roundTripMs + hubCount);
  const hubs = Array.from({ length: hubCount }, () => {
    return new Hub({ upstream: distantPrimary(roundTripMs, random), leaseMs: LEASE_MS, monotonic, log });
  });
  hubs.forEach((hub) => hub.start());
  const follower = new HubFollower({
    hubs: hubs.map((_hub, number) => String(number)),
    open: wireTo(hubs, frozen),
    checkCode: (statement, codes) => statement === codes,
    identity: { lockKey: 1, process: "edge", region: null, version: "1" },
    leaseMs: LEASE_MS,
    onKeys: () => undefined,
    clock: { now: monotonic },
    monotonic,
    randomBytes: (length) => Buffer.from(Array.from({ length }, () => Math.floor(256 * random()))),
    log,
  });
  const starting = follower.start();
  await vi.advanceTimersByTimeAsync(4_000);
  await starting;
  let without = 0;
  let stretch = 0;
  let longest = 0;
  for (let ms = 0; ms < SECONDS * 1_000; ms += 1) {
    await vi.advanceTimersByTimeAsync(1);
    stretch = follower.view.current ? 0 : stretch + 1;
    without += follower.view.current ? 0 : 1;
    longest = Math.max(longest, stretch);
  }
  hubs.forEach((hub) => hub.stop());
  return { share: without / (SECONDS * 1_000), longest };
}

test.each([
  [5, 1],
  [5, 2],
  [60, 2],
  [120, 2],
  [180, 1],
  [180, 2],
])("at a round trip of %i ms, %i hubs keep a lease alive", async (roundTripMs, hubs) => {
  const { share, longest } = await followed(roundTripMs, hubs);
  expect(share).toBeLessThan(0.02);
  expect(longest).toBeLessThan(WAIT_MS / 2);
});

test("a hub that falls silent takes no nonces from the other one", async () => {
  const { longest } = await followed(180, 2, new Set(["0"]));
  expect(longest).toBeLessThan(WAIT_MS / 2);
});
