import { randomUUID } from "node:crypto";
import { beforeEach, expect, test } from "vitest";
import { DatabaseClock } from "#database/database-clock.ts";
import { createLogger } from "#observability/logger.ts";
import { RevocationFollower } from "#revocation/follower.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

let time: SimulatedTime;

const EPOCH = randomUUID();

beforeEach(() => {
  time = new SimulatedTime();
});

/** Starts a follower of a database without revocations, and notes the times of its questions. */
async function follow(): Promise<{ follower: RevocationFollower; questions: number[] }> {
  const questions: number[] = [];
  const now = time.monotonic;
  const db = {
    query: async ({ name }: { readonly name?: string }) => {
      if (name === "revocation-news") {
        questions.push(now());
      }
      return await Promise.resolve({
        rows: [{ locked: true, clock: 0, epoch: EPOCH, standby: false, now_ms: now(), seq: null }],
      });
    },
  };
  const close = async (): Promise<void> => await Promise.resolve();
  const follower = new RevocationFollower({
    subscribe: async () => await Promise.resolve({ db, close } as never),
    other: { connect: async () => await Promise.reject(new Error("silent")) },
    identity: { lockKey: 1, process: "api", region: null, version: "1" },
    leaseMs: 200,
    clock: { now },
    time: new DatabaseClock({ wall: now, monotonic: now }),
    timers: time,
    log: createLogger({ level: "silent" }),
  });
  await follower.start();
  return { follower, questions };
}

/** Returns the number of questions in the next ten seconds. Every 20 ms, `meanwhile` is called. */
async function questionsIn10s(questions: number[], meanwhile: () => void): Promise<number> {
  questions.splice(0);
  for (let ms = 0; ms < 10_000; ms += 20) {
    await time.advance(20);
    meanwhile();
  }
  return questions.length;
}

test("a follower asks every 50 ms while tokens are checked, and every 150 ms otherwise; its lease never ends", async () => {
  const { follower, questions } = await follow();
  let oldestMs = 0;
  const look = (): void => {
    oldestMs = Math.max(oldestMs, follower.view.ageMs);
  };
  expect(await questionsIn10s(questions, look)).toBeLessThan(70);
  expect(oldestMs).toBeLessThan(200);
  const inUse = await questionsIn10s(questions, () => {
    expect(follower.view.current).toBe(true);
  });
  expect(inUse).toBeGreaterThan(195);
  // For a second, tokens may still be checked.
  expect(await questionsIn10s(questions, look)).toBeLessThan(90);
  await follower.stop();
});
