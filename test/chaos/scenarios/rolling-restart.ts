/** Two apis behind a balancer and two workers restart by SIGTERM, one after the other, under load. */
import { setTimeout as delay } from "node:timers/promises";
import type { Process } from "#test/bench/environment/signet.ts";
import { round } from "#test/bench/report/measurement.ts";
import type { SetScene } from "../cases.ts";
import { countLedger } from "../ledger.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import { fatalAnswers, promises } from "../run-case.ts";
import { healthyGroup, repeatedAnswers } from "../traffic.ts";
import { Trial } from "../trial.ts";
import { startBalancer } from "./balancer.ts";

const PER_SECOND = 60;
const ROUNDS = { full: 2, quick: 1 } as const;
/** Time for each process. The events last for all of them. */
const SECONDS_EACH = 15;
const BETWEEN_MS = 2_000;
const P99_MS = 5_000;

/** Restarts a process as a deployment does. Returns how long its shutdown took, in seconds. */
async function roll(one: Process): Promise<number> {
  const { server } = one;
  const began = performance.now();
  await server.end();
  const tookMs = performance.now() - began;
  await server.restart();
  await one.untilReady();
  await delay(BETWEEN_MS);
  return round(tookMs / 1_000, 2);
}

export async function rollingRestart(scene: SetScene): Promise<CaseOutcome> {
  const { world, quick } = scene;
  const rounds = quick ? ROUNDS.quick : ROUNDS.full;
  const { apis, workers } = world.signet;
  const processes = [...workers, ...apis];
  const events = rounds * processes.length * SECONDS_EACH * PER_SECOND;
  const group = await healthyGroup(scene);
  const balancer = await startBalancer(apis.map(({ url }) => url));
  const trial = await Trial.begin(scene, events);
  try {
    const publishing = trial.publish(
      [{ from: 0, count: events, group, pace: { kind: "open", perSecond: PER_SECOND } }],
      balancer.url,
    );
    await trial.untilArrived(PER_SECOND);
    const ended: number[] = [];
    for (let number = 0; number < rounds; number += 1) {
      for (const each of processes) {
        ended.push(await roll(each));
      }
    }
    const answers = repeatedAnswers(await publishing);
    const settled = await trial.settle();
    const ledger = countLedger(await trial.fates());
    return {
      ledger,
      findings: { events, sent_again: answers, ended_in_s: ended },
      targets: [
        ...promises(ledger.accepted, ledger.lost, events, settled),
        atMost("acknowledged twice", ledger.duplicated, 0),
        fatalAnswers(answers),
        atMost("publish to arrival, p99 ms", ledger.p99_ms, P99_MS),
      ],
    };
  } finally {
    await trial.end();
    await balancer.close();
  }
}
