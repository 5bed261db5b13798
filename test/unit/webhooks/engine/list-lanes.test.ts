import { randomBytes } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import { LANE_MS, ListLanes } from "#webhooks/engine/list-lanes.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

let time: SimulatedTime;

beforeEach(() => {
  time = new SimulatedTime();
});

interface Lanes {
  readonly lanes: ListLanes;
  /** When lists were claimed, in milliseconds. */
  readonly claims: number[];
  /** For which endpoints. */
  readonly asked: (readonly string[])[];
  /** How many were claimed each time. */
  readonly counts: number[];
  readonly retries: readonly RetryClaim[];
}

/** A claim of retries. There are as many as it asks for. */
interface RetryClaim {
  readonly timedOut: boolean;
  /** Of lists. */
  readonly number: number;
}

interface LanesOptions {
  readonly slow?: readonly string[];
  readonly batchMax?: number;
  /** Starts the list of an endpoint. */
  readonly start?: (endpoint: string) => Promise<void>;
  readonly starts?: { readonly pauseMs: number };
}

/** Lanes for which two deliveries to each slow endpoint wait at any time. */
function makeLanes(
  silentSinceMs: (endpoint: string) => number | undefined,
  {
    slow = ["ep_1"],
    batchMax = 64,
    start = async () => await Promise.resolve(),
    starts = { pauseMs: 0 },
  }: LanesOptions = {},
): Lanes {
  const claims: number[] = [];
  const counts: number[] = [];
  const asked: (readonly string[])[] = [];
  const retries: RetryClaim[] = [];
  const lanes = new ListLanes({
    timers: time,
    worker: "key_me",
    pool: {
      query: async ({ name, values }: { name: string; values: unknown[] }) => {
        if (name.startsWith("has-")) {
          return await Promise.resolve({ rows: [{ waits: true }] });
        }
        if (name.endsWith("-retries")) {
          const carriers = values[0] as string[];
          retries.push({ timedOut: name === "claim-timed-out-retries", number: carriers.length });
          const rows = carriers.map((carrier, index) => ({
            delivery_id: `dlv_${index}`,
            endpoint_id: `ep_${index}`,
            carrier,
            list: index + 1,
            next_attempt_at: new Date(0),
          }));
          return await Promise.resolve({ rows });
        }
        const [carriers, , endpoints] = values as string[][];
        const [carrier] = carriers ?? [];
        asked.push(endpoints ?? []);
        if (endpoints?.length === 1) {
          claims.push(time.now);
          counts.push(carriers?.length ?? 0);
        }
        const rows = (endpoints ?? []).flatMap((endpointId) => [
          { delivery_id: "dlv_1", endpoint_id: endpointId, carrier, list: 1 },
          { delivery_id: "dlv_2", endpoint_id: endpointId, carrier, list: 1 },
        ]);
        return await Promise.resolve({ rows });
      },
    } as never,
    starter: {
      startSlow: async (_: string, [member]: readonly { endpoint_id: string }[]) =>
        await start(member?.endpoint_id ?? ""),
      startRetries: async (_: string, [member]: readonly { endpoint_id: string }[]) =>
        await start(member?.endpoint_id ?? ""),
    } as never,
    starts: Object.assign(starts, {
      begin: async (_: string, begun: () => Promise<void>) => await begun(),
    }) as never,
    health: { slow: () => [...slow], silentSinceMs },
    clock: { now: time.wall },
    randomBytes,
    batchMax,
  });
  return { lanes, claims, counts, asked, retries };
}

/** Makes the lane's turns up to a time. Each begins `lateMs` after its timer. */
async function makeTurns({ lanes }: Lanes, untilMs: number, lateMs = 0): Promise<void> {
  while (time.now < untilMs) {
    await Promise.all([lanes.slowRound(), lanes.silentRound()]);
    await time.advance(LANE_MS + lateMs);
  }
}

describe("a slow endpoint", () => {
  test("that answers has a list in each turn", async () => {
    const made = makeLanes(() => undefined);
    await makeTurns(made, 1_000);
    expect(made.claims).toEqual([0, 250, 500, 750]);
  });

  test("that hangs has a list after three times its silence, then every ten seconds", async () => {
    const made = makeLanes(() => -1_000);
    await makeTurns(made, 30_000);
    expect(made.claims).toEqual([0, 3_000, 13_000, 23_000]);
  });

  test("that was silent has a list in the next turn after an answer", async () => {
    const made = makeLanes(() => (time.now < 1_900 ? -1_000 : undefined));
    await makeTurns(made, 2_500);
    expect(made.claims).toEqual([0, 2_000, 2_250]);
  });

  test("that hangs is collected though others share its lists", async () => {
    const made = makeLanes(() => -1_000, { slow: ["ep_1", "ep_2"], batchMax: 3 });
    await makeTurns(made, 3_000);
    expect(made.asked).toEqual([["ep_1", "ep_2"]]);
  });

  test("that hangs has a list in each turn while lists are full", async () => {
    const made = makeLanes(() => -10_000, { batchMax: 2 });
    await makeTurns(made, 1_000);
    expect(made.claims).toEqual([0, 250, 500, 750]);
  });
});

test("a slow endpoint that answers does not wait for the starts of silent ones", async () => {
  const started: string[] = [];
  const { lanes } = makeLanes((endpoint) => (endpoint === "ep_silent" ? -1_000 : undefined), {
    slow: ["ep_silent", "ep_answers"],
    start: async (endpoint) => {
      started.push(endpoint);
      await (endpoint === "ep_silent" ? time.sleep(60_000) : undefined);
    },
  });
  const rounds = [lanes.silentRound(), lanes.slowRound()];
  await time.advance(1);
  expect(started.toSorted()).toEqual(["ep_answers", "ep_silent"]);
  await time.advance(60_000);
  await Promise.all(rounds);
});

describe("a lane whose timer is late, because the process waits for a core,", () => {
  test("leaves three of four turns to first attempts", async () => {
    const made = makeLanes(() => undefined);
    const first = time.every(100, () => made.lanes.noteFirstAttempts());
    made.lanes.noteFirstAttempts();
    await makeTurns(made, 2_100, 10);
    time.cancel(first);
    expect(made.claims).toEqual([0, 1_040, 2_080]);
  });

  test("leaves none without first attempts", async () => {
    const made = makeLanes(() => undefined);
    await makeTurns(made, 1_000, 10);
    expect(made.claims).toEqual([0, 260, 520, 780]);
  });
});

test("a lane claims fewer lists after a slow round, more after a quick one, and as many after a turn without one", async () => {
  const starts = { pauseMs: 0 };
  let startMs = 600;
  const made = makeLanes(() => undefined, { start: async () => await time.sleep(startMs), starts });
  const turn = async (): Promise<void> => {
    const turned = made.lanes.slowRound();
    await time.advance(startMs);
    await turned;
  };
  await turn();
  await turn();
  starts.pauseMs = 100;
  await turn();
  await turn();
  starts.pauseMs = 0;
  startMs = 1;
  await turn();
  await turn();
  expect(made.counts).toEqual([64, 32, 16, 32]);
});

describe("retries whose last attempt timed out", () => {
  test("are claimed apart from those at endpoints that answered", async () => {
    const { lanes, retries } = makeLanes(() => undefined);
    await Promise.all([lanes.retryRound(), lanes.timedOutRound()]);
    expect(retries.map(({ timedOut }) => timedOut)).toEqual([false, true]);
  });

  test("start less often while starts are slow, though those of other retries do not", async () => {
    const { lanes, retries } = makeLanes(() => undefined, { start: async () => await time.sleep(3) });
    const turn = async (round: () => Promise<unknown>): Promise<void> => {
      const turned = round();
      await time.advance(1_000);
      await turned;
    };
    for (let turns = 0; turns < 4; turns += 1) {
      await turn(async () => await lanes.timedOutRound());
      await turn(async () => await lanes.retryRound());
    }
    const numbers = (timedOut: boolean) =>
      retries.filter((claim) => claim.timedOut === timedOut).map(({ number }) => number);
    expect(numbers(true)).toEqual([128, 64, 32, 64]);
    expect(numbers(false)).toEqual([32, 32, 32, 32]);
  });
});
