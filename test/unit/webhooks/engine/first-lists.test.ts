import { randomBytes } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import type { Pool } from "#database/pool.ts";
import type { ClaimedFirst } from "#database/repositories/webhooks/claims.ts";
import { createLogger } from "#observability/logger.ts";
import type { AttemptService } from "#webhooks/engine/attempt-service.ts";
import { CarrierStarter } from "#webhooks/engine/carrier-starter.ts";
import { BusyTenants } from "#webhooks/engine/busy-tenants.ts";
import { FirstLists } from "#webhooks/engine/first-lists.ts";
import type { AttemptRequest } from "#webhooks/engine/member-outcome.ts";
import { Starts } from "#webhooks/engine/starts.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

let time: SimulatedTime;

interface Started {
  readonly carrier: string;
  readonly members: readonly string[];
  readonly offsets: readonly number[];
  readonly mixed: boolean;
}

let started: Started[];
let removed: string[];
let sent: AttemptRequest[];
/** Ends the attempts of a claim, in their order. */
let answer: (() => void)[];
let temporalIsUp: boolean;
let lists: FirstLists;
let starts: Starts;

interface StartOptions {
  readonly workflowId: string;
  readonly args: readonly [
    {
      readonly members: readonly { readonly id: string }[];
      readonly offsets_ms: readonly number[];
      readonly mixed?: true;
    },
  ];
}

const client = {
  workflow: {
    start: async (_type: string, { workflowId, args: [input] }: StartOptions) => {
      if (!temporalIsUp) {
        throw Object.assign(new Error("away"), { code: 14 });
      }
      const members = input.members.map(({ id }) => id);
      started.push({
        carrier: workflowId,
        members,
        offsets: input.offsets_ms,
        mixed: input.mixed === true,
      });
    },
  },
};

function createLists(batchMax = 64): FirstLists {
  const log = createLogger({ level: "silent" });
  starts = new Starts(time, log);
  return new FirstLists({
    timers: time,
    worker: "key_me",
    pool: {
      query: async ({ name, values }: { name: string; values: readonly unknown[] }) => {
        if (name === "remove-unstarted-lists") {
          removed.push(...(values[0] as string[]));
        }
        return { rows: [] };
      },
    } as unknown as Pool,
    attempts: {
      run: async (request: AttemptRequest) => {
        sent.push(request);
        await new Promise<void>((resolve) => answer.push(resolve));
        return { startedAtMs: 0, endedAtMs: 0, outcomes: [] };
      },
    } as unknown as AttemptService,
    starter: new CarrierStarter({
      client: client as never,
      random: Math.random,
      retryWindowMs: 1_000,
      deadLetterMs: 1_000,
      eager: true,
    }),
    starts,
    clock: { now: () => 0 },
    randomBytes,
    log,
    busy: new BusyTenants({ underWayMax: 256, monotonic: time.monotonic }),
    batchMax,
  });
}

beforeEach(() => {
  time = new SimulatedTime();
  [started, removed, sent, answer] = [[], [], [], []];
  temporalIsUp = true;
  lists = createLists();
});

const names = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${index}`);

interface Claim {
  readonly endpointId?: string;
  readonly epoch?: number;
}

/** Claims these deliveries. Returns the carrier that the claim wrote. */
async function claim(
  ids: readonly string[],
  { endpointId = "ep_a", epoch = 1 }: Claim = {},
): Promise<string> {
  let written = "";
  await lists.claim(ids.length, async ({ carrier, alone }) => {
    written = alone && ids.length === 1 ? (ids[0] ?? "") : carrier;
    const claimed = ids.map((deliveryId): ClaimedFirst => ({
      delivery_id: deliveryId,
      tenant_id: "ten_a",
      endpoint_id: endpointId,
      carrier: written,
      epoch,
      loaded: undefined,
    }));
    return { claimed };
  });
  return written;
}

/** Whether a member of the nth request that failed leaves its list. */
const leaves = (request: number, endpointId = "ep_a"): boolean | undefined =>
  sent[request]?.plan.leaves(endpointId);

async function answerAll(): Promise<void> {
  answer.forEach((end) => end());
  await time.advance(50);
}

describe("a list of first attempts", () => {
  test("is sent at each claim, and its workflow starts after a second with all members", async () => {
    const carrier = await claim(["a", "b"]);
    await claim(["c"], { endpointId: "ep_b" });
    expect(sent.map(({ members }) => members.map(({ id }) => id))).toEqual([["a", "b"], ["c"]]);
    expect(new Set(sent.map((request) => request.carrier))).toEqual(new Set([carrier]));
    await answerAll();
    expect(started).toEqual([]);
    await time.advance(1_000);
    expect(started).toEqual([
      { carrier, members: ["a", "b", "c"], offsets: sent[0]?.plan.offsetsMs, mixed: true },
    ]);
    expect(sent[1]?.plan.offsetsMs).toEqual(sent[0]?.plan.offsetsMs);
    expect(removed).toEqual([carrier]);
  });

  test("has its member's id only if it never gets another", async () => {
    expect(await claim(["a"])).toBe("a");
    const second = await claim(["b"]);
    expect(second).toMatch(/^bat_/);
    expect(await claim(["c"])).toBe(second);
    await answerAll();
    expect(started).toMatchObject([{ carrier: "a", members: ["a"] }]);
    await time.advance(1_000);
    expect(started[1]).toMatchObject({ carrier: second, members: ["b", "c"] });
  });

  test("gets an id of its own at once while lists have several members", async () => {
    await claim(["a", "b"]);
    await answerAll();
    await time.advance(1_000);
    const carrier = await claim(["c"]);
    expect(carrier).toMatch(/^bat_/);
    expect(await claim(["d"])).toBe(carrier);
    await answerAll();
    await time.advance(1_000);
    expect(await claim(["e"])).toMatch(/^bat_/);
    await answerAll();
    await time.advance(1_000);
    expect(await claim(["f"])).toBe("f");
  });

  test("starts when it is full, and the next claim opens another", async () => {
    const carrier = await claim(names("a", 64));
    expect(await claim(["b"])).not.toBe(carrier);
    await answerAll();
    expect(started.map(({ members }) => members.length)).toEqual([64]);
  });

  test("does not start before its requests are answered or leased", async () => {
    await claim(["a"]);
    await time.advance(2_000);
    expect(started).toEqual([]);
    await answerAll();
    expect(started).toHaveLength(1);
  });

  test("is not closed during a claim for it", async () => {
    const carrier = await claim(["a", "b"]);
    let end: () => void = () => undefined;
    const claiming = lists.claim(1, async (list) => {
      await new Promise<void>((resolve) => (end = resolve));
      const ids = { delivery_id: "c", tenant_id: "ten_a", endpoint_id: "ep_a" };
      return { claimed: [{ ...ids, carrier: list.carrier, epoch: 1, loaded: undefined }] };
    });
    await time.advance(3_000);
    expect(leaves(0)).toBe(true);
    end();
    await claiming;
    await answerAll();
    expect(started).toMatchObject([{ carrier, members: ["a", "b", "c"] }]);
  });

  test("is left to a sweep after a claim that failed, because it may have been made", async () => {
    const carrier = await claim(["a", "b"]);
    await expect(lists.claim(1, async () => await Promise.reject(new Error("lost")))).rejects.toThrow("lost");
    await answerAll();
    await time.advance(3_000);
    expect(started).toEqual([]);
    expect(await claim(["c"])).not.toBe(carrier);
  });

  test("has a delivery once that was replayed or handed back meanwhile", async () => {
    await claim(["a", "b"]);
    await claim(["a"], { epoch: 2 });
    await answerAll();
    await time.advance(1_000);
    expect(started.map(({ members }) => members)).toEqual([["a", "b"]]);
    expect(sent[1]?.members).toEqual([{ id: "a", epoch: 2 }]);
  });

  test("has one member at a list size of 1", async () => {
    lists = createLists(1);
    await claim(["a"]);
    await claim(["b"]);
    await answerAll();
    expect(started.map(({ carrier, members }) => [carrier, members])).toEqual([
      ["a", ["a"]],
      ["b", ["b"]],
    ]);
  });
});

test("a claim of more than the open list can take opens another one", async () => {
  expect(lists.places).toBe(64);
  const first = await claim(names("a", 50));
  expect(lists.places).toBe(14);
  expect(await claim(names("b", 14))).toBe(first);
  expect(lists.places).toBe(64);
  await claim(names("c", 50));
  expect(await claim(names("d", 15))).not.toBe(first);
  expect(lists.places).toBe(49);
  await answerAll();
  expect(started.map(({ members }) => members.length)).toEqual([64, 50]);
});

describe("a failed member", () => {
  test("stays with a list of its endpoint, which then starts at once", async () => {
    await claim(["a", "b"]);
    expect(leaves(0)).toBe(false);
    await answerAll();
    expect(started).toMatchObject([{ members: ["a", "b"], mixed: false }]);
    expect(leaves(0)).toBe(false);
  });

  test("leaves a list of several endpoints, also one that was closed", async () => {
    await claim(["a", "b"]);
    await claim(["c"], { endpointId: "ep_b" });
    expect([leaves(0), leaves(1, "ep_b")]).toEqual([true, true]);
    await time.advance(1_000);
    expect(leaves(0)).toBe(true);
  });

  test("leaves when lists start too often", async () => {
    const left: (boolean | undefined)[] = [];
    for (let list = 0; list < 5; list += 1) {
      await claim([`d${list}`], { endpointId: `ep_${list}` });
      left.push(leaves(list, `ep_${list}`));
    }
    expect(left.slice(0, 4)).toEqual([false, false, false, true]);
  });
});

describe("while Temporal is unavailable", () => {
  test("lists wait, up to a limit, and start when it is back", async () => {
    temporalIsUp = false;
    for (let list = 0; list < 256; list += 1) {
      expect(lists.isFull).toBe(false);
      await claim(names(`l${list}d`, 64));
    }
    expect(lists.isFull).toBe(true);
    await answerAll();
    await time.advance(5_000);
    temporalIsUp = true;
    await time.advance(60_000);
    expect(new Set(started.map(({ carrier }) => carrier)).size).toBe(256);
    expect(lists.isFull).toBe(false);
  });

  test("a process that ends does not wait for it", async () => {
    temporalIsUp = false;
    await claim(names("a", 64));
    await claim(["b"]);
    await answerAll();
    starts.stop();
    const settled = lists.settle();
    await time.advance(3_000);
    await settled;
    expect(removed).toEqual([]);
  });
});

describe("an insert that hands deliveries over", () => {
  const handed = (carriers: readonly string[], ids: readonly string[]): ClaimedFirst[] =>
    ids.map((deliveryId, index) => ({
      delivery_id: deliveryId,
      tenant_id: "ten_a",
      endpoint_id: "ep_a",
      carrier: carriers[index] ?? "",
      epoch: 1,
      loaded: undefined,
    }));

  /** Hands over and inserts at once. Returns the carriers. */
  function insert(ids: readonly string[]): readonly string[] {
    const { carriers, inserted } = lists.handOver(ids);
    inserted(handed(carriers, ids));
    return carriers;
  }

  test("sends nothing before it is done, and its list does not start meanwhile", async () => {
    const first = lists.handOver(["a", "b"]);
    const second = lists.handOver(["c"]);
    expect(new Set([...first.carriers, ...second.carriers]).size).toBe(1);
    first.inserted(handed(first.carriers, ["a", "b"]));
    expect(sent.map(({ members }) => members.length)).toEqual([2]);
    await answerAll();
    await time.advance(3_000);
    expect(started).toEqual([]);
    second.inserted(handed(second.carriers, ["c"]));
    await answerAll();
    expect(started.map(({ members }) => members)).toEqual([["a", "b", "c"]]);
  });

  test("gives a delivery alone its own id, and the next ones a list", async () => {
    const [alone] = insert(["a"]);
    const [second] = insert(["b"]);
    expect([alone, insert(["c"])[0]]).toEqual(["a", second]);
    expect(second).toMatch(/^bat_/);
    await answerAll();
    expect(started).toMatchObject([{ carrier: "a", members: ["a"] }]);
  });

  test("never adds to a list that a claim or another insert may give a delivery's id", async () => {
    const first = lists.handOver(["a"]);
    const second = lists.handOver(["b"]);
    expect(first.carriers).toEqual(["a"]);
    expect(second.carriers).not.toEqual(["a"]);
    let given: readonly string[] = [];
    await lists.claim(1, async ({ alone }) => {
      ({ carriers: given } = lists.handOver(["c"]));
      expect(alone).toBe(false);
      return await Promise.resolve({ claimed: [] });
    });
    expect(given).toEqual(second.carriers);
  });

  test("leaves no list with the id of a delivery that waits in the outbox", async () => {
    lists.handOver(["a"]).inserted([]);
    expect(await claim(["b"])).toBe("b");
    await answerAll();
    await time.advance(1_000);
    expect(started.map(({ carrier }) => carrier)).toEqual(["b"]);
  });

  test("fills several lists, each of which starts when it is full", async () => {
    const ids = names("a", 150);
    const carriers = insert(ids);
    expect(new Set(carriers).size).toBe(3);
    await answerAll();
    expect(started.map(({ members }) => members.length)).toEqual([64, 64]);
    expect(lists.places).toBe(64 - 22);
  });

  test("leaves its lists to a sweep if its answer is lost", async () => {
    const [carrier] = insert(["a", "b"]);
    lists.handOver(["c"]).failed();
    await answerAll();
    await time.advance(3_000);
    expect(started).toEqual([]);
    expect(insert(["d", "e"])[0]).not.toBe(carrier);
  });

  test("ends before the lists of a process that ends", async () => {
    const { carriers, inserted } = lists.handOver(["a", "b"]);
    const settled = lists.settle();
    inserted(handed(carriers, ["a", "b"]));
    await answerAll();
    await settled;
    expect(started.map(({ members }) => members)).toEqual([["a", "b"]]);
  });
});
