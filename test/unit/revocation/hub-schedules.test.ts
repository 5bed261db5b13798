/**
 * Every schedule of a hostile hub up to a length: what it delays, loses, repeats, reorders, swaps and forges, while the
 * clocks drift and the process pauses. `SIGNET_SCHEDULE_LENGTH=6` tries ten million.
 */
import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { DatabaseClock } from "#database/database-clock.ts";
import type { Reply, Request } from "#revocation/hub-messages.ts";
import { HubSession, ProvenKnowledge } from "#revocation/hub-session.ts";
import { nextHead, revocationStatement } from "#revocation/proof.ts";
import { ModelPrimary } from "#test/support/model-primary.ts";

const BOUND_MS = 250;
const LEASE_MS = 240;
const LENGTH = Number(process.env["SIGNET_SCHEDULE_LENGTH"] ?? 4);
/** Repairing takes ten times as long as a schedule, so only some of the long ones are repaired. */
const REPAIRED_EVERY = LENGTH > 4 ? 64 : 8;
/** Speeds of the process's clock. A slow one is the dangerous one. */
const RATES = LENGTH > 5 ? [1 - 5e-4, 1, 1 + 5e-4] : [1 - 5e-4];
const TOKEN = {
  credentialId: "crd_1",
  principalId: "prn_1",
  tenantId: "ten_1",
  jti: "tok_1",
  kid: "kid_1",
  issuedAt: 1,
  certificateThumbprint: undefined,
};
/** What a hub may have stored: nonces repeat between schedules, so each run uses the same ones. */
const NONCES = Array.from({ length: 64 }, () => randomBytes(32));

/** One process, its hub, and the real time that neither of them knows. */
class World {
  readonly primary = new ModelPrimary();
  readonly requests: Request[] = [];
  readonly stored: Reply[] = [];
  readonly knowledge: ProvenKnowledge;
  session: HubSession;
  realMs = 0;
  committedAt: number | undefined;
  #drawn = 0;

  constructor(rate: number) {
    const now = (): number => this.realMs * rate;
    this.knowledge = new ProvenKnowledge({
      leaseMs: LEASE_MS,
      clock: { now },
      time: new DatabaseClock({ wall: now, monotonic: now }),
      timers: { monotonic: now },
      checkCode: (statement, codes) => statement === codes,
      randomBytes: () => NONCES[this.#drawn++ % NONCES.length] ?? Buffer.alloc(32),
      onKeys: () => undefined,
      onApplied: () => undefined,
    });
    this.session = new HubSession(this.knowledge, (request) => void this.requests.push(request));
    this.session.begin();
    // The process starts with an honest hub, and admits tokens.
    this.honest();
    this.honest();
    this.session.ask();
  }

  /** The process leaves the hub for another one. */
  reconnect(): void {
    this.requests.length = 0;
    this.session = new HubSession(this.knowledge, (request) => void this.requests.push(request));
    this.session.begin();
  }

  /** The hub answers everything as it should. */
  honest(): void {
    for (const request of this.requests.splice(0)) {
      for (const reply of this.primary.answer(request)) {
        this.session.read(reply);
      }
    }
    this.session.ask();
    for (const request of this.requests.splice(0)) {
      for (const reply of this.primary.answer(request)) {
        this.stored.push(reply);
        this.session.read(reply);
      }
    }
  }

  verdict(): string {
    return this.knowledge.view.verdict(TOKEN);
  }
}

function lastNonce({ requests }: World): string | undefined {
  return requests.findLast((request) => request.type === "nonce")?.nonce;
}

/** What may happen at one step. */
const ACTIONS: readonly ((world: World) => void)[] = [
  // The process asks; the hub keeps the request.
  (world) => void world.session.ask(),
  // The primary answers the oldest request; the hub stores the answer.
  (world) => {
    const request = world.requests.shift();
    world.stored.push(...(request === undefined ? [] : world.primary.answer(request)));
  },
  // The hub delivers its newest message, and may do so again.
  (world) => {
    const reply = world.stored.at(-1);
    if (reply !== undefined) {
      world.session.read(reply);
    }
  },
  // The hub delivers its oldest message for the last time.
  (world) => {
    const reply = world.stored.shift();
    if (reply !== undefined) {
      world.session.read(reply);
    }
  },
  // The hub gives an old proof out as the answer to the newest nonce.
  (world) => {
    const nonce = lastNonce(world);
    const proof = world.stored.find((reply) => reply.type === "proof");
    if (nonce !== undefined && proof !== undefined) {
      world.session.read({ ...proof, nonce });
    }
  },
  // The hub forges what undoes the revocation, under the newest code that it knows.
  (world) => {
    const { state } = world.primary;
    const line = `${state.sequence}:tenant:ten_1:9999:1`;
    world.session.read({ type: "lines", lines: [line] });
    world.session.read({ type: "line", line, ...state, codes: revocationStatement(state) });
  },
  // The hub invents what undoes the revocation, with the head that follows from it.
  (world) => {
    const { epoch, sequence, head } = world.primary.state;
    const line = `${sequence + 1}:tenant:ten_1:9999:1`;
    const state = { epoch, sequence: sequence + 1, head: nextHead(head, line) };
    world.session.read({ type: "line", line, ...state, codes: "invented" });
  },
  // The revocation is committed. The hub stores its notice.
  (world) => {
    world.stored.push(world.primary.commit(world.committedAt === undefined ? "ten_1" : "ten_2"));
    world.committedAt ??= world.realMs;
  },
  // Another commit, of which the hub drops the notice: a gap.
  (world) => void world.primary.commit("ten_3"),
  // Time passes.
  (world) => {
    world.realMs += 80;
  },
  (world) => {
    world.realMs += 170;
  },
];

/** What has happened before a schedule begins: nothing, or a revocation whose notice the hub holds back. */
const BEGINNINGS: readonly ((world: World) => void)[] = [
  () => undefined,
  (world) => {
    world.stored.push(world.primary.commit("ten_1"));
    world.committedAt = world.realMs;
    world.realMs += 170;
  },
];

/** Carries out a schedule. Throws if a token is admitted too late. */
function run(schedule: readonly number[], begin: (world: World) => void, rate: number): World {
  const world = new World(rate);
  begin(world);
  let denied = false;
  for (const step of schedule) {
    ACTIONS[step]?.(world);
    const verdict = world.verdict();
    if (
      verdict === "admit" &&
      world.committedAt !== undefined &&
      world.realMs - world.committedAt >= BOUND_MS
    ) {
      throw new Error(`admitted too late: ${schedule.join(" ")} at rate ${rate}`);
    }
    if (denied && verdict !== "revoked") {
      throw new Error(`denied no longer: ${schedule.join(" ")} at rate ${rate}`);
    }
    denied ||= verdict === "revoked";
  }
  return world;
}

/** Another hub answers. Throws if the process then does not know everything. */
function repair(world: World, schedule: readonly number[]): void {
  world.reconnect();
  // Six round trips at most: keys, lines, a snapshot, lines, and the proof.
  for (let trip = 0; trip < 6; trip += 1) {
    world.honest();
  }
  const expected = world.committedAt === undefined ? "admit" : "revoked";
  if (world.verdict() !== expected || !world.knowledge.view.current) {
    throw new Error(`a new hub does not repair ${schedule.join(" ")}: ${world.verdict()}`);
  }
}

test("no schedule of a hostile hub admits a token 250 ms after its revocation; a new hub repairs each", () => {
  const schedule = Array.from({ length: LENGTH }, () => 0);
  let tried = 0;
  for (const rate of RATES) {
    for (const begin of BEGINNINGS) {
      for (let number = 0; number < ACTIONS.length ** LENGTH; number += 1) {
        let rest = number;
        for (let at = 0; at < LENGTH; at += 1) {
          schedule[at] = rest % ACTIONS.length;
          rest = Math.floor(rest / ACTIONS.length);
        }
        const world = run(schedule, begin, rate);
        tried += 1;
        if (tried % REPAIRED_EVERY === 0) {
          repair(world, schedule);
        }
      }
    }
  }
  expect(tried).toBe(RATES.length * BEGINNINGS.length * ACTIONS.length ** LENGTH);
}, 7_200_000);
