/**
 * The follower of a database, in simulated time: answers take any time, connections end or fall silent, the event loop
 * stalls, and what is due at once runs in any order. `SIGNET_TEST_PROPERTIES` multiplies the schedules.
 */
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { DatabaseClock } from "#database/database-clock.ts";
import { createLogger } from "#observability/logger.ts";
import { type FollowerOptions, RevocationFollower } from "#revocation/follower.ts";
import { cases } from "#test/support/properties.ts";
import { seededRandom } from "#test/support/seeded-random.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

const LEASE_MS = 200;
const FAULTS_MS = 20_000;
/** Time in which a follower has recovered from any fault: it opens another connection, and reads everything. */
const RECOVERED_MS = 10_000;
const { numRuns: SCHEDULES } = cases(150);
const STALLS_MS = 4_200;
/** How long a closed connection over which nothing arrives keeps its questions, and an opening one its caller. */
const CLOSE_MS = 1_000;
const CONNECT_MS = 5_000;
/** After a cut, an attempt begins within half a second. It opens, and reads everything. */
const AGAIN_MS = 800;
const log = createLogger({ level: "silent" });

interface Line {
  /** Whether the network carries nothing any more, without a word. */
  cut: boolean;
  /** When the last message arrives, each way. */
  thereAt: number;
  backAt: number;
  readonly end: (error: Error) => void;
  readonly notify: (payload: string) => void;
}

/** A database that revokes credentials, and the network to it. */
class Model {
  readonly time: SimulatedTime;
  readonly random: () => number;
  readonly committed: { readonly seq: number; readonly target: string; readonly atMs: number }[] = [];
  readonly lines = new Set<Line>();
  /** Whether no further connection opens: it is refused, or swallowed. */
  away: "refused" | "swallowed" | undefined;
  #epoch: string = randomUUID();

  constructor(seed: number) {
    this.random = seededRandom(seed);
    this.time = new SimulatedTime(this.random);
  }

  below(count: number): number {
    return Math.floor(this.random() * count);
  }

  commit(): void {
    const seq = this.committed.length + 1;
    this.committed.push({ seq, target: `crd_${seq}`, atMs: this.time.now });
    for (const line of this.lines) {
      this.#bring(line, this.time.now, () => line.notify(`${seq}:credential:crd_${seq}`));
    }
  }

  readonly subscribe: FollowerOptions["subscribe"] = async ({ onNotification, onLost, signal }) => {
    if (this.away === "refused") {
      throw new Error("refused");
    }
    const opening = Promise.withResolvers<undefined>();
    signal?.addEventListener("abort", () => opening.reject(new Error("aborted")));
    if (this.away === undefined) {
      this.time.after(1 + this.below(60), () => opening.resolve(undefined));
    }
    await opening.promise;
    const { line, db, close } = this.#open(onNotification, onLost);
    this.lines.add(line);
    return { db, close } as never;
  };

  /** The pool of the other connection. */
  readonly other = {
    connect: async () => {
      if (this.away !== undefined) {
        await this.time.sleep(this.away === "swallowed" ? CONNECT_MS : 1);
        throw new Error("no connection");
      }
      await this.time.sleep(1 + this.below(20));
      const { db, close } = this.#open(
        () => undefined,
        () => undefined,
      );
      return { ...db, end: close, release: () => undefined };
    },
  } as never as FollowerOptions["other"];

  #open(notify: (payload: string) => void, onLost: (error?: Error) => void) {
    const waiting = new Set<(error: Error) => void>();
    const end = (error: Error): void => {
      this.lines.delete(line);
      for (const reject of waiting) {
        reject(error);
      }
      waiting.clear();
    };
    const line: Line = {
      cut: false,
      thereAt: 0,
      backAt: 0,
      notify,
      end: (error) => {
        end(error);
        onLost(error);
      },
    };
    const query = async (statement: string | { readonly name: string; readonly values: unknown[] }) =>
      await new Promise((resolve, reject) => {
        waiting.add(reject);
        line.thereAt = this.#arrival(line.thereAt, this.time.now);
        // The server goes on while this process stalls.
        const { thereAt } = line;
        this.#bring(line, thereAt, () => {
          waiting.delete(reject);
          resolve({ rows: this.#rows(statement, thereAt) });
        });
      });
    const close = async (): Promise<void> => {
      if (line.cut) {
        await this.time.sleep(CLOSE_MS);
      }
      end(new Error("closed"));
    };
    return { line, db: { query }, close };
  }

  /** Returns when a message arrives that is sent at that time: after those before it. */
  #arrival(before: number, sentAt: number): number {
    const isLate = this.away !== undefined && this.random() < 0.1;
    return Math.max(before, sentAt + 1 + this.below(isLate ? 400 : 12));
  }

  /** Brings a message to the follower, unless the network swallows it. */
  #bring(line: Line, sentAt: number, arrive: () => void): void {
    line.backAt = this.#arrival(line.backAt, sentAt);
    this.time.after(line.backAt - this.time.now, () => {
      if (!line.cut) {
        arrive();
      }
    });
  }

  /** Returns what the database answers at that time. */
  #rows(statement: string | { readonly name: string; readonly values: unknown[] }, now: number): object[] {
    const committed = this.committed.filter(({ atMs }) => atMs <= now);
    const clock = {
      locked: true,
      clock: committed.length,
      epoch: this.#epoch,
      standby: false,
      now_ms: now,
    };
    const rows = committed.map(({ seq, target, atMs }) => ({
      ...clock,
      seq,
      kind: "credential",
      target,
      ends_at_ms: null,
      at_ms: atMs,
      issued_before: null,
    }));
    if (typeof statement !== "string") {
      const after = Number(statement.values[0]);
      const found = statement.name === "revocation-news" ? rows.slice(after) : [];
      return found.length > 0 ? found : [{ ...clock, seq: null }];
    }
    return statement.startsWith("FETCH") ? rows : statement.includes("kind = 'tenant'") ? [] : [clock];
  }

  /** Breaks something, or mends everything. */
  disturb(): void {
    const line = [...this.lines][this.below(this.lines.size)];
    const draw = this.random();
    if (draw < 0.3) {
      this.away = undefined;
    } else if (draw < 0.4) {
      this.away = this.random() < 0.5 ? "refused" : "swallowed";
    } else if (draw < 0.7 && line !== undefined) {
      line.cut = true;
    } else {
      line?.end(new Error("the connection was reset"));
    }
  }
}

function follow(model: Model): RevocationFollower {
  const { time } = model;
  return new RevocationFollower({
    subscribe: model.subscribe,
    other: model.other,
    identity: { lockKey: 1, process: "api", region: null, version: "1" },
    leaseMs: LEASE_MS,
    clock: { now: time.monotonic },
    time: new DatabaseClock(time),
    timers: time,
    log,
  });
}

function tokenOf(credentialId: string) {
  return {
    credentialId,
    principalId: "pri_1",
    tenantId: "ten_1",
    jti: "jti_1",
    kid: "kid_1",
    issuedAt: 0,
    certificateThumbprint: undefined,
  };
}

async function isAdmitted(follower: RevocationFollower): Promise<boolean> {
  return await follower.requireCurrent().then(
    () => true,
    () => false,
  );
}

/** Checks that nothing is admitted that was revoked a lease ago. */
function checkAdmissions({ committed, time }: Model, { view }: RevocationFollower, seed: number): void {
  const old = committed.filter(({ atMs }) => time.now - atMs > LEASE_MS);
  const admitted = old.filter(({ target }) => view.verdict(tokenOf(target)) === "admit");
  expect(admitted, `seed ${seed} at ${time.now} ms`).toEqual([]);
}

test("no schedule of faults lets a token be admitted a lease after its revocation, and each ends in recovery", async () => {
  for (let seed = 1; seed <= SCHEDULES; seed += 1) {
    const model = new Model(seed);
    const { time } = model;
    const follower = follow(model);
    void follower.start();
    while (time.now < FAULTS_MS) {
      const draw = model.random();
      if (draw < 0.05) {
        model.disturb();
      } else if (draw < 0.15) {
        model.commit();
      }
      await (draw > 0.98 ? time.stall(model.below(700)) : time.advance(model.below(60)));
      checkAdmissions(model, follower, seed);
    }
    model.away = undefined;
    await time.advance(RECOVERED_MS);
    checkAdmissions(model, follower, seed);
    const admits = isAdmitted(follower);
    await time.advance(1_000);
    expect(await admits, `seed ${seed}`).toBe(true);
    expect(follower.view.sequence, `seed ${seed}`).toBe(model.committed.length);
    const stopped = follower.stop();
    await time.advance(2_000);
    await stopped;
  }
});

test("after a cut of any length, requests are admitted again within 800 ms, and none is rejected later", async () => {
  for (let seed = 1; seed <= SCHEDULES / 3; seed += 1) {
    const model = new Model(seed);
    const { time } = model;
    const follower = follow(model);
    const started = follower.start();
    await time.advance(2_000);
    await started;
    model.away = "swallowed";
    model.lines.forEach((line) => (line.cut = true));
    const endsAt = time.now + 200 + model.below(3_000);
    time.after(endsAt - time.now, () => (model.away = undefined));
    let rejectedAt = endsAt;
    while (time.now < endsAt + 4_000) {
      const admitted = isAdmitted(follower);
      await time.advance(150);
      rejectedAt = (await admitted) ? rejectedAt : time.now;
    }
    expect(rejectedAt - endsAt, `seed ${seed}`).toBeLessThanOrEqual(AGAIN_MS);
    const stopped = follower.stop();
    await time.advance(2_000);
    await stopped;
  }
});

test("an event loop that stalls again and again rejects no request while the database answers", async () => {
  for (let seed = 1; seed <= SCHEDULES; seed += 1) {
    const model = new Model(seed);
    const { time } = model;
    const follower = follow(model);
    const started = follower.start();
    await time.advance(2_000);
    await started;
    const begunAt = time.now;
    const requests: Promise<boolean>[] = [];
    const ask = (): void => void requests.push(isAdmitted(follower));
    // A request gives up after five seconds in which every answer is read too late.
    while (time.now < begunAt + STALLS_MS) {
      await time.stall(50 + model.below(550));
      ask();
      await time.advance(model.below(3) * model.below(20));
      ask();
    }
    await time.advance(2_000);
    expect(new Set(await Promise.all(requests)), `seed ${seed}`).toEqual(new Set([true]));
    const stopped = follower.stop();
    await time.advance(2_000);
    await stopped;
  }
});
