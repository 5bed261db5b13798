/** How often followers behind hubs have a lease, and when they deny: the real hubs and followers in simulated time. */
import { beforeEach, expect, test } from "vitest";
import { DatabaseClock } from "#database/database-clock.ts";
import { createLogger } from "#observability/logger.ts";
import { HubFollower } from "#revocation/hub-follower.ts";
import { Hub } from "#revocation/hub.ts";
import type { HubAnswer, Upstream } from "#revocation/hub-questions.ts";
import type { OpenHubConnection, Reply } from "#revocation/hub-messages.ts";
import { LOST_ROUND_TRIPS } from "#test/support/distant-proxy.ts";
import { claimsOf } from "#test/support/hubs.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { KEYS, ModelPrimary } from "#test/support/model-primary.ts";
import { THOROUGH } from "#test/support/properties.ts";
import { seededRandom } from "#test/support/seeded-random.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

// A thousand followers take half a minute of a fast core.
allowMinutes(5);

const LEASE_MS = 240;
const BOUND_MS = 250;
const SECONDS = 15;
/** Longest stretch without a lease where nothing is lost. */
const LONGEST_MS = 50;
const LANES = 3;
const log = createLogger({ level: "silent" });
let time: SimulatedTime;
const monotonic = (): number => time.now;

beforeEach(() => {
  time = new SimulatedTime();
});

interface Distance {
  readonly roundTripMs: number;
  /** Each way varies by this in both directions, in milliseconds. */
  readonly jitterMs: number;
  /** Share of packets that are lost and sent again. */
  readonly loss: number;
  readonly random: () => number;
}

/** The connections of one hub to the primary. In each, a late packet delays those behind it. */
class DistantPrimary implements Upstream {
  statements = 0;
  readonly #model: ModelPrimary;
  readonly #distance: Distance;
  readonly #there: number[] = Array.from({ length: LANES }, () => 0);
  readonly #back: number[] = Array.from({ length: LANES }, () => 0);

  constructor(model: ModelPrimary, distance: Distance) {
    this.#model = model;
    this.#distance = distance;
  }

  async ask(nonce: Buffer, known: Parameters<Upstream["ask"]>[1]): Promise<HubAnswer> {
    const lane = this.statements % LANES;
    this.statements += 1;
    await this.#carry(this.#there, lane);
    const proof = this.#model.proofOf(nonce.toString("hex"));
    const lines = this.#model.lines.slice(known.after);
    await this.#carry(this.#back, lane);
    return { proof, trees: [], lines, keys: known.keysDigest === proof.keysDigest ? undefined : KEYS };
  }

  /** Carries a notice over all connections. @returns when the first has arrived */
  async notify(): Promise<void> {
    await Promise.race(this.#back.map(async (_due, lane) => await this.#carry(this.#back, lane)));
  }

  async snapshot(): ReturnType<Upstream["snapshot"]> {
    return await Promise.resolve(this.#model.snapshot());
  }

  relayed(): void {
    this.statements += 1;
  }

  async report(): Promise<void> {
    this.statements += 1;
    await Promise.resolve();
  }

  async reportLost(): Promise<void> {
    await Promise.resolve();
  }

  async #carry(dueAt: number[], lane: number): Promise<void> {
    const { roundTripMs, jitterMs, loss, random } = this.#distance;
    const lost = random() < loss ? LOST_ROUND_TRIPS * roundTripMs : 0;
    const arrives = monotonic() + roundTripMs / 2 + (2 * random() - 1) * jitterMs + lost;
    const due = Math.max(dueAt[lane] ?? 0, arrives);
    dueAt[lane] = due;
    await time.sleep(due - monotonic());
  }
}

/** Wires in memory to hubs that are named by their numbers. Those of hubs that are cut off hold what they carry. */
class Wires {
  readonly #hubs: readonly Hub[];
  readonly #held = new Map<string, (() => void)[]>();
  #carried: (() => void)[] = [];

  constructor(hubs: readonly Hub[]) {
    this.#hubs = hubs;
  }

  readonly open: OpenHubConnection = async (url, handlers) => {
    const ends = { backlog: 0, close: () => undefined };
    const back = (text: string): void => this.#carry(url, () => handlers.onMessage(text));
    const peer = this.#hubs[Number(url)]?.accept({ ...ends, send: back });
    const send = (text: string): void => this.#carry(url, () => peer?.onMessage(text));
    return await Promise.resolve({ ...ends, send });
  };

  cutOff(url: string): void {
    this.#held.set(url, []);
  }

  join(url: string): void {
    const held = this.#held.get(url) ?? [];
    this.#held.delete(url);
    held.forEach((deliver) => this.#carry(url, deliver));
  }

  /** One timer for all that is carried in a millisecond: a thousand followers send 66 messages each per second. */
  #carry(url: string, deliver: () => void): void {
    const held = this.#held.get(url);
    if (held !== undefined) {
      held.push(deliver);
      return;
    }
    if (this.#carried.push(deliver) === 1) {
      time.after(1, () => {
        const { length } = this.#carried;
        this.#carried.splice(0, length).forEach((arrive) => arrive());
      });
    }
  }
}

interface Plan extends Omit<Distance, "random"> {
  readonly hubs: number;
  readonly followers: number;
}

/** Starts hubs and followers. Each follower has two hubs, if there are two. */
async function start({ hubs: hubCount, followers: followerCount, ...distance }: Plan) {
  const random = seededRandom(distance.roundTripMs + hubCount);
  const model = new ModelPrimary();
  const primaries = Array.from(
    { length: hubCount },
    () => new DistantPrimary(model, { ...distance, random }),
  );
  const hubs = primaries.map((upstream) => new Hub({ upstream, leaseMs: LEASE_MS, timers: time, log }));
  hubs.forEach((hub) => hub.start());
  const wires = new Wires(hubs);
  const followers = Array.from({ length: followerCount }, (_none, number) => {
    const names = [number % hubCount, (number + 1) % hubCount].map(String);
    return new HubFollower({
      hubs: names.slice(0, hubCount),
      open: wires.open,
      checkCode: (statement, codes) => statement === codes,
      identity: { lockKey: number + 1, process: "edge", region: null, version: "1" },
      leaseMs: LEASE_MS,
      onKeys: () => undefined,
      clock: { now: monotonic },
      time: new DatabaseClock({ wall: monotonic, monotonic }),
      timers: time,
      randomBytes: (length) => Buffer.alloc(length).map(() => Math.floor(256 * random())),
      log,
    });
  });
  /** Revokes a tenant: the hubs hear of it. */
  const revoke = (tenantId: string): void => {
    const { line, ...state }: Extract<Reply, { type: "line" }> = model.commit(tenantId);
    hubs.forEach((hub, number) => void primaries[number]?.notify().then(() => hub.relay(line, state)));
  };
  return { primaries, hubs, wires, followers, revoke };
}

/** Follows for a quarter of a minute. @returns the share of time without a lease, and its longest stretch in milliseconds */
async function followed(roundTripMs: number, hubCount: number, silent: readonly string[] = []) {
  const plan = { roundTripMs, hubs: hubCount, followers: 1, jitterMs: 2.5, loss: 0 };
  const { hubs, wires, followers } = await start(plan);
  silent.forEach((url) => wires.cutOff(url));
  const [follower] = followers as [HubFollower];
  const starting = follower.start();
  await time.advance(4_000);
  await starting;
  let without = 0;
  let stretch = 0;
  let longest = 0;
  for (let ms = 0; ms < SECONDS * 1_000; ms += 1) {
    await time.advance(1);
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
  expect(longest).toBeLessThan(LONGEST_MS);
});

test("a hub that falls silent takes no nonces from the other one", async () => {
  const { longest } = await followed(180, 2, ["0"]);
  expect(longest).toBeLessThan(LONGEST_MS);
});

/** From the beginning of a cut to the first refusal (docs/runbook.md, A region is cut off). */
const REFUSED_MS = 500;

test.each([
  [5, 1],
  [60, 2],
  [180, 2],
])(
  "at a round trip of %i ms, a request behind %i hubs is refused half a second after a cut, whenever it comes",
  async (roundTripMs, hubCount) => {
    const plan = { roundTripMs, hubs: hubCount, followers: 1, jitterMs: 2.5, loss: 0 };
    const { hubs, wires, followers } = await start(plan);
    const [follower] = followers as [HubFollower];
    const starting = follower.start();
    await time.advance(4_000);
    await starting;
    const names = hubs.map((_hub, number) => String(number));
    for (let cutAt = 0; cutAt < 100; cutAt += 7) {
      await time.advance(1_000 + cutAt);
      const beganAt = monotonic();
      names.forEach((name) => wires.cutOff(name));
      let refusedMs = Number.NaN;
      // One request every 20 ms; several may wait together.
      for (let ms = 0; ms < 1_000 && Number.isNaN(refusedMs); ms += 20) {
        follower
          .requireCurrent()
          .catch(() => (refusedMs = Number.isNaN(refusedMs) ? monotonic() - beganAt : refusedMs));
        await time.advance(20);
      }
      expect(refusedMs).toBeLessThan(REFUSED_MS);
      // While none brings proofs, nobody waits.
      const askedAt = monotonic();
      await expect(follower.requireCurrent()).rejects.toThrow("no hub brings a proof");
      expect(monotonic()).toBe(askedAt);
      names.forEach((name) => wires.join(name));
      await time.advance(1_000);
      await follower.requireCurrent();
    }
    hubs.forEach((hub) => hub.stop());
    await Promise.all([follower.stop(), time.advance(10)]);
  },
);

const STEP_MS = 5;
const PAUSE_MS = 500;
const FOLLOWERS = THOROUGH ? 1_000 : 100;
const REVOCATIONS = 10;

/** What followers decide about tokens of revoked tenants, every 5 ms from a revocation on. */
class Verdicts {
  readonly deniedAfterMs: number[] = [];
  /** Admissions of a token 250 ms or more after its revocation. */
  late = 0;
  /** Longest stretch in which a follower had no lease, in milliseconds. */
  longestMs = 0;
  readonly #followers: readonly HubFollower[];
  readonly #without: number[];

  constructor(followers: readonly HubFollower[]) {
    this.#followers = followers;
    this.#without = followers.map(() => 0);
  }

  /** Looks until the next revocation is due. @returns how many followers do not deny the token yet */
  async watch(tenantId: string): Promise<number> {
    const token = claimsOf({ credentialId: "crd_1", tenantId });
    const admitting = new Set(this.#followers);
    for (let passedMs = STEP_MS; passedMs <= PAUSE_MS; passedMs += STEP_MS) {
      await time.advance(STEP_MS);
      this.#lookAtLeases();
      for (const follower of admitting) {
        const verdict = follower.view.verdict(token);
        this.late += verdict === "admit" && passedMs >= BOUND_MS ? 1 : 0;
        if (verdict === "revoked") {
          admitting.delete(follower);
          this.deniedAfterMs.push(passedMs);
        }
      }
    }
    return admitting.size;
  }

  #lookAtLeases(): void {
    this.#followers.forEach(({ view }, number) => {
      const without = view.current ? 0 : (this.#without[number] ?? 0) + STEP_MS;
      this.#without[number] = without;
      this.longestMs = Math.max(this.longestMs, without);
    });
  }
}

test(`${FOLLOWERS} followers behind ten hubs at 180 ms, where 1 % is lost: all deny in time, and none lacks a lease for long`, async () => {
  const plan = { roundTripMs: 180, jitterMs: 5, loss: 0.01, hubs: 10, followers: FOLLOWERS };
  const { primaries, hubs, wires, followers, revoke } = await start(plan);
  const starting = followers.map(async (follower) => await follower.start());
  await time.advance(4_000);
  await Promise.all(starting);

  const calm = new Verdicts(followers);
  const statements = (): number => primaries.reduce((sum, each) => sum + each.statements, 0);
  const before = { ms: monotonic(), statements: statements() };
  for (let number = 0; number < REVOCATIONS; number += 1) {
    revoke(`calm-${number}`);
    expect(await calm.watch(`calm-${number}`)).toBe(0);
  }
  const perSecond = (1_000 * (statements() - before.statements)) / (monotonic() - before.ms);
  expect(calm.late).toBe(0);
  expect(calm.longestMs).toBeLessThanOrEqual(BOUND_MS);
  expect(perSecond).toBeLessThanOrEqual(500);
  const sorted = calm.deniedAfterMs.sort((a, b) => a - b);
  // Half a round trip, and 25 ms.
  expect(sorted[Math.floor(0.99 * sorted.length)]).toBeLessThanOrEqual(115);

  // Two neighbours are cut off together, and with them all hubs of some followers. Each hub is cut off once.
  const cut = new Verdicts(followers);
  for (let number = 0; number < plan.hubs; number += 2) {
    const pair = [number, number + 1].map(String);
    pair.forEach((hub) => wires.cutOff(hub));
    revoke(`cut-${number}`);
    expect(await cut.watch(`cut-${number}`)).toBe(plan.followers / plan.hubs);
    pair.forEach((hub) => wires.join(hub));
    revoke(`joined-${number}`);
    expect(await cut.watch(`joined-${number}`)).toBe(0);
  }
  expect(cut.late).toBe(0);
  hubs.forEach((hub) => hub.stop());
}, 1_200_000);
