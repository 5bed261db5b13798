/** The worker is killed in the middle of a bulk replay. */
import { accessToken, untilActive } from "#test/bench/environment/provision.ts";
import type { ChaosCase, SetScene } from "../cases.ts";
import { kill } from "../faults.ts";
import { countLedger } from "../ledger.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import { promises } from "../run-case.ts";
import { repeatedAnswers, sizeOf } from "../traffic.ts";
import { Trial } from "../trial.ts";
import { countOf, endpointIds, must, switchEndpoints, until } from "./tenant-requests.ts";

const LETTERS = { full: 10_000, quick: 1_500 } as const;
const ENDPOINTS = 4;
const PER_SECOND = 500;
const CONNECTIONS = 32;
const ANSWER_MS = 20;
/** Shares of the items that are replayed before each kill. */
const KILLS = [0.2, 0.5];
const TIMEOUT_MS = 240_000;

const DEAD = "SELECT count(*)::int AS n FROM deliveries WHERE state = 'DEAD_LETTERED'";
/** Deliveries that did not get exactly one further cycle, with one attempt on record in it. */
const WRONG = `SELECT count(*)::int AS n FROM deliveries
  WHERE (state, cycle, attempt_count) <> ('DELIVERED', 2, 1)`;
const REPLAYED = "SELECT count(*)::int AS n FROM replay_items WHERE job_id = $1 AND result = 'replayed'";

/** Replays all dead letters, and kills the worker twice meanwhile. */
async function replayKill(scene: SetScene): Promise<CaseOutcome> {
  const { world, load, quick } = scene;
  const events = quick ? LETTERS.quick : LETTERS.full;
  const shape = { name: "replayed", tenants: 1, endpointsPerTenant: ENDPOINTS, fanOut: "one" } as const;
  const group = await world.group(shape);
  await load.behave(group.endpoints, { kind: "delay", ms: ANSWER_MS });
  const [tenant] = group.tenants;
  if (tenant === undefined) {
    throw new Error("the tenant was not created");
  }
  const base = world.signet.apiUrl;
  const token = await accessToken(world.signet, tenant);
  const ids = await endpointIds(base, token);
  await switchEndpoints(base, token, ids, "disable");
  const trial = await Trial.begin(scene, events);
  try {
    const pace = { kind: "closed", connections: CONNECTIONS, batch: 1 } as const;
    const published = await trial.publish([{ from: 0, count: events, group, pace }]);
    await until(async () => (await countOf(world, DEAD)) === events, "the dead letters", TIMEOUT_MS);
    await switchEndpoints(base, token, ids, "enable");
    await untilActive(world.signet, tenant, ENDPOINTS);
    const body = { filter: {}, rate_per_second: PER_SECOND };
    const began = performance.now();
    const job = await must({ base, token, method: "POST", path: "/v1/webhooks/dlq/replay", body });
    const path = `/v1/webhooks/replays/${String(job["id"])}`;
    const find = async (): Promise<typeof job> => await must({ base, token, method: "GET", path });
    const inFlight: number[] = [];
    for (const share of KILLS) {
      const enough = async (): Promise<boolean> => Number((await find())["done"]) >= share * events;
      await until(enough, "the replay to go on", TIMEOUT_MS);
      inFlight.push((await kill("worker").strike(trial, sizeOf("short", quick))).inFlight);
    }
    await until(async () => (await find())["state"] === "COMPLETED", "the job to end", TIMEOUT_MS);
    const seconds = (performance.now() - began) / 1_000;
    const settled = await trial.settle();
    const ledger = countLedger(await trial.fates());
    const { total, done, failed, skipped } = await find();
    const outcomes = await must({ base, token, method: "GET", path: `${path}/outcomes` });
    const replayed = await countOf(world, REPLAYED, [job["id"]]);
    const twice = inFlight.reduce((sum, each) => sum + each, 0);
    return {
      ledger,
      findings: {
        events,
        sent_again: repeatedAnswers(published),
        job: { total, done, failed, skipped },
        outcomes,
        in_flight: inFlight,
        job_s: Math.round(seconds),
      },
      targets: [
        ...promises(ledger.accepted, ledger.lost, events, settled),
        atMost("acknowledged twice", ledger.duplicated, twice),
        atMost("items that the job did not replay", events - Number(done), 0),
        atMost("items that the job counted otherwise", Math.abs(Number(total) - Number(done)), 0),
        atMost("items without the result `replayed`", events - replayed, 0),
        atMost("outcomes that are not `delivered`", events - Number(outcomes["delivered"]), 0),
        atMost("deliveries without exactly one new cycle", await countOf(world, WRONG), 0),
      ],
    };
  } finally {
    await trial.end();
  }
}

export const REPLAY_KILL: ChaosCase = {
  name: "replay-kill",
  about: "kill -9 of the worker, twice, in the middle of 10,000 replays",
  run: replayKill,
};
