import { beforeEach, expect, test } from "vitest";
import { type Attempted, KeptConnection } from "#runtime/kept-connection.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

let time: SimulatedTime;
beforeEach(() => {
  time = new SimulatedTime();
});

/** What the network does with an attempt: it opens after so many milliseconds, is refused at once, or is swallowed. */
type Fate = number | "refused" | "swallowed";

/** A connection kept over a network in memory, with everything that happens. Its connections are their numbers. */
function keep(fateOf: (number: number) => Fate, patienceMs?: number) {
  const attempts: { readonly at: number; readonly attempted: Attempted; endedAt: number | undefined }[] = [];
  const seen = { opened: [] as number[], closed: [] as number[], probed: [] as number[], lost: 0, most: 0 };
  const kept = new KeptConnection<number>({
    open: async (attempted) => {
      const number = attempts.length;
      const attempt = { at: time.now, attempted, endedAt: undefined as number | undefined };
      attempts.push(attempt);
      const fate = fateOf(number);
      const underWay = attempts.filter((each) => each.endedAt === undefined);
      seen.most = Math.max(seen.most, underWay.length);
      return await new Promise<number>((resolve, reject) => {
        const fail = (error: unknown): void => {
          attempt.endedAt = time.now;
          reject(error);
        };
        attempted.signal.addEventListener("abort", () => fail(attempted.signal.reason));
        if (fate === "refused") {
          fail(new Error("refused"));
        } else if (fate !== "swallowed") {
          time.after(fate, () => {
            attempt.endedAt ??= time.now;
            resolve(number);
          });
        }
      });
    },
    close: (number) => void seen.closed.push(number),
    probe: () => void seen.probed.push(time.now),
    onOpen: (number) => void seen.opened.push(number),
    onLost: () => (seen.lost += 1),
    onFailed: () => undefined,
    timers: time,
    ...(patienceMs === undefined ? {} : { patienceMs }),
  });
  const starts = (): number[] => attempts.map(({ at }) => at);
  return { kept, attempts, seen, starts };
}

test("an attempt that is swallowed ends after a second, and another begins beside it after half of one", async () => {
  const { kept, attempts, seen, starts } = keep(() => "swallowed");
  void kept.start();
  await time.advance(2_999);
  expect(starts()).toEqual([0, 500, 1_000, 1_500, 2_000, 2_500]);
  expect(attempts.map(({ endedAt }) => endedAt).slice(0, 4)).toEqual([1_000, 1_500, 2_000, 2_500]);
  expect(seen.most).toBe(2);
  kept.stop();
  await time.advance(2_000);
  expect(starts()).toHaveLength(6);
  expect(attempts.every(({ endedAt }) => endedAt !== undefined)).toBe(true);
});

test("the first attempt that opens is used, and the other is ended", async () => {
  const { kept, attempts, seen } = keep((number) => (number === 0 ? 900 : 100));
  void kept.start();
  await time.advance(3_000);
  expect(seen.opened).toEqual([1]);
  expect(kept.connection).toBe(1);
  expect(attempts.map(({ endedAt }) => endedAt)).toEqual([600, 600]);
});

test("where nothing listens, attempts come after pauses that grow to half a second", async () => {
  const { kept, seen, starts } = keep(() => "refused");
  await kept.start();
  await time.advance(2_000);
  expect(starts()).toEqual([0, 20, 60, 140, 300, 620, 1_120, 1_620]);
  expect(seen.most).toBe(1);
});

test("a connection that fell silent is replaced within 600 ms from when the network carries again", async () => {
  for (let carriesAt = 0; carriesAt < 4_000; carriesAt += 37) {
    const begin = time.now + 1_000;
    const { kept, seen } = keep((number) => (number > 0 && time.now < begin + carriesAt ? "swallowed" : 20));
    void kept.start();
    await time.advance(1_000);
    let waited = 0;
    for (; seen.opened.length < 2; waited += 20) {
      kept.expect();
      await time.advance(20);
      expect(waited).toBeLessThanOrEqual(Math.max(carriesAt, 500) + 600);
    }
    expect(seen.closed).toEqual([0]);
    expect(seen.most).toBeLessThanOrEqual(2);
    kept.stop();
  }
});

test("a connection that answers when it is probed is kept, and no attempt begins beside it", async () => {
  const { kept, seen, starts } = keep(() => 20);
  void kept.start();
  await time.advance(100);
  for (let ms = 0; ms < 5_000; ms += 20) {
    kept.expect();
    await time.advance(20);
    if (seen.probed.at(-1) === time.now) {
      kept.heard();
    }
  }
  expect(seen.probed.length).toBeGreaterThan(10);
  expect(starts()).toEqual([0]);
  expect(kept.connection).toBe(0);
});

test("a sign of life ends the attempts beside the connection", async () => {
  const { kept, attempts, seen, starts } = keep((number) => (number === 0 ? 20 : "swallowed"));
  void kept.start();
  await time.advance(100);
  kept.expect();
  await time.advance(1_200);
  expect(starts()).toEqual([0, 600, 1_100]);
  kept.heard();
  await time.advance(5_000);
  expect(starts()).toHaveLength(3);
  expect(attempts.slice(1).map(({ endedAt }) => endedAt)).toEqual([1_300, 1_300]);
  expect([kept.connection, seen.lost]).toEqual([0, 0]);
});

test("a connection that is silent for two seconds is lost, and attempts go on", async () => {
  const { kept, seen, starts } = keep((number) => (number === 0 ? 20 : "swallowed"));
  void kept.start();
  await time.advance(100);
  kept.expect();
  await time.advance(1_999);
  expect([kept.connection, seen.lost]).toEqual([0, 0]);
  await time.advance(1);
  expect([kept.connection, seen.lost]).toEqual([undefined, 1]);
  await time.advance(1_400);
  expect(starts()).toEqual([0, 600, 1_100, 1_600, 2_100, 2_600, 3_100]);
});

test("far away, an attempt gets three times as long as the fastest took", async () => {
  const { kept, attempts, seen, starts } = keep((number) => (number === 2 ? "swallowed" : 800), 3_000);
  void kept.start();
  await time.advance(2_000);
  expect([starts(), seen.opened]).toEqual([[0], [0]]);
  attempts[0]?.attempted.onLost();
  await time.advance(1_500);
  expect([starts(), seen.opened]).toEqual([
    [0, 2_020],
    [0, 1],
  ]);
  attempts[1]?.attempted.onLost();
  await time.advance(3_000);
  // The third was swallowed, and another began when it had lasted half of its time.
  expect([starts(), seen.opened]).toEqual([
    [0, 2_020, 3_540, 4_740],
    [0, 1, 3],
  ]);
});
