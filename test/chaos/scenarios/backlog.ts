/** Events pile up while every receiver refuses connections; then all recover at once. */
import { availableParallelism } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { monotonicMs } from "#test/bench/load/monotonic.ts";
import { round } from "#test/bench/report/measurement.ts";
import type { SetScene } from "../cases.ts";
import { countLedger, type Fate } from "../ledger.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import { promises } from "../run-case.ts";
import { healthyGroup, repeatedAnswers } from "../traffic.ts";
import { Trial } from "../trial.ts";

const EVENTS = { full: 50_000, quick: 3_000 } as const;
const CONNECTIONS = 64;
/** How long receivers stay down after the last event. */
const AWAY_MS = 10_000;
const DRAIN = { idleMs: 300_000, maxMs: 600_000 };
/** Default of SIGNET_FAILING_ENDPOINT_PER_SECOND: attempts per second to one failing endpoint. */
const PACE = 250 * availableParallelism();

/** Returns the highest number of requests in one second, to one endpoint and to all together. */
function peaks(fates: readonly Fate[], fromMs: number): { readonly endpoint: number; readonly all: number } {
  const perEndpoint = new Map<string, number>();
  const all = new Map<number, number>();
  for (const { endpoint, requestsMs } of fates) {
    for (const atMs of requestsMs.filter((ms) => ms >= fromMs)) {
      const second = Math.floor((atMs - fromMs) / 1_000);
      const key = `${endpoint} ${second}`;
      perEndpoint.set(key, (perEndpoint.get(key) ?? 0) + 1);
      all.set(second, (all.get(second) ?? 0) + 1);
    }
  }
  const greatest = (values: Iterable<number>): number =>
    [...values].reduce((most, value) => Math.max(most, value), 0);
  return { endpoint: greatest(perEndpoint.values()), all: greatest(all.values()) };
}

export async function backlog(scene: SetScene): Promise<CaseOutcome> {
  const { load, quick } = scene;
  const events = quick ? EVENTS.quick : EVENTS.full;
  const group = await healthyGroup(scene);
  const trial = await Trial.begin(scene, events);
  try {
    await load.takeDown(group.endpoints);
    const began = monotonicMs();
    const published = await trial.publish([
      { from: 0, count: events, group, pace: { kind: "closed", connections: CONNECTIONS, batch: 1 } },
    ]);
    const publishedMs = monotonicMs() - began;
    await delay(AWAY_MS);
    await load.bringUp(group.endpoints);
    const upAtMs = monotonicMs();
    const settled = await trial.settle(DRAIN);
    const fates = await trial.fates();
    const ledger = countLedger(fates);
    const peak = peaks(fates, upAtMs);
    const lastMs = fates.reduce((last, { requestsMs }) => Math.max(last, requestsMs[0] ?? 0), upAtMs);
    return {
      ledger,
      findings: {
        events,
        published_per_second: round((events / publishedMs) * 1_000, 0),
        sent_again: repeatedAnswers(published),
        drained_s: round((lastMs - upAtMs) / 1_000, 1),
        peak_per_second: peak.all,
      },
      targets: [
        ...promises(ledger.accepted, ledger.lost, events, settled),
        atMost("acknowledged twice", ledger.duplicated, 0),
        atMost("requests to one endpoint in its busiest second", peak.endpoint, PACE),
      ],
    };
  } finally {
    await trial.end();
  }
}
