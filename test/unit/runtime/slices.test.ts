import { describe, expect, test } from "vitest";
import { Slices } from "#runtime/slices.ts";

/** Returns slices with a clock that advances with the work. */
function slicesOf(): { slices: Slices; work: (ms: number, done?: () => void) => () => void } {
  let now = 0;
  return {
    slices: new Slices({ sizeMax: 100, refusal: () => new Error("too much"), now: () => now }),
    work: (ms, done) => () => {
      now += ms;
      done?.();
    },
  };
}

describe("work in slices", () => {
  test("is done at once while there is time", () => {
    const { slices, work } = slicesOf();
    expect(slices.run("a", work(1))).toBeUndefined();
    expect(slices.run("a", () => "done")).toBe("done");
  });

  test("waits for a later turn when the slice is used up, and lets the event loop run in between", async () => {
    const { slices, work } = slicesOf();
    const done: string[] = [];
    const run = () =>
      slices.run(
        "a",
        work(5, () => done.push("done")),
      );
    const [first, ...later] = Array.from({ length: 20 }, run);
    expect(first).toBeUndefined();
    expect(later.every((each) => each instanceof Promise)).toBe(true);
    let turns = 0;
    while (done.length < 20) {
      await new Promise(setImmediate);
      turns += 1;
    }
    expect(turns).toBeGreaterThanOrEqual(18);
  });

  test("of one owner does not delay another's until its end", async () => {
    const { slices, work } = slicesOf();
    const order: string[] = [];
    const run = (owner: string) =>
      slices.run(
        owner,
        work(5, () => order.push(owner)),
      );
    await Promise.all([...Array.from({ length: 10 }, () => run("greedy")), run("modest")]);
    expect(order.indexOf("modest")).toBeLessThanOrEqual(2);
    expect(order).toHaveLength(11);
  });

  test("waits up to a limit, counted for each owner", async () => {
    const { slices, work } = slicesOf();
    void slices.run("a", work(5));
    const waiting = [slices.run("a", work(5), 60), slices.run("a", work(5), 40)];
    expect(() => slices.run("a", work(5), 1)).toThrow("too much");
    const other = slices.run("b", work(5), 100);
    await Promise.all([...waiting, other]);
    expect(await slices.run("a", () => "room again", 100)).toBe("room again");
  });

  test("that fails rejects for its own caller", async () => {
    const { slices, work } = slicesOf();
    const fail = (): never => {
      throw new Error("no");
    };
    expect(() => slices.run("a", fail)).toThrow("no");
    void slices.run("a", work(5));
    const [failed, other] = [slices.run("a", fail), slices.run("a", () => "done")];
    await expect(failed).rejects.toThrow("no");
    expect(await other).toBe("done");
  });
});
