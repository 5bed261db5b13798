/** Carries out one case: publish, break something in the middle, wait until all is quiet, sum up. */
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { Restartable } from "../bench/environment/restartable.ts";
import type { Stack } from "../bench/environment/stack.ts";
import type { World } from "../bench/environment/world.ts";
import { RUN_LENGTH } from "../bench/load/event-id.ts";
import type { LoadGenerator } from "../bench/load/load-generator.ts";
import { monotonicMs } from "../bench/load/monotonic.ts";
import type { ChaosCase, Fault, VictimName } from "./cases.ts";
import {
  oldestUnattempted,
  openCarriers,
  recordedAttempts,
  timedOutAttempts,
  undelivered,
  untilNone,
  watchOldest,
} from "./observe.ts";
import { type CaseResult, describeResult, type PassedFault } from "./result.ts";
import { type Part, planTraffic, publishParts, punctualUrls, type Size } from "./traffic.ts";

const RESTART_AFTER_MS = 1_000;
/** What a killed process had handed to the kernel still gets to where it goes. */
const ECHO_MS = 200;
const POLL_MS = 5;
const FAULT_TIMEOUT_MS = 120_000;
const DRAIN = { idleMs: 60_000, maxMs: 180_000 };
const SETTLE_MS = 60_000;

/** What a case happens to. */
export interface Scene {
  readonly stack: Stack;
  readonly world: World;
  readonly load: LoadGenerator;
}

function victimOf({ stack, world }: Scene, name: VictimName): Restartable {
  const victims = {
    api: world.signet.api,
    worker: world.signet.worker,
    temporal: stack.temporal.process,
    postgres: stack.postgres.process,
  };
  const victim = victims[name];
  if (victim === undefined) {
    throw new Error(`${name} is not ours to kill`);
  }
  return victim;
}

class Experiment {
  readonly #scene: Scene;
  readonly #size: Size;
  #recordedBefore = 0;

  constructor(scene: Scene, size: Size) {
    this.#scene = scene;
    this.#size = size;
  }

  async begin(run: string, events: number): Promise<void> {
    const { world, load } = this.#scene;
    this.#recordedBefore = await recordedAttempts(world);
    await load.begin(run, events);
  }

  async recorded(): Promise<number> {
    return (await recordedAttempts(this.#scene.world)) - this.#recordedBefore;
  }

  /** Makes the faults, spread over the arrivals of the first part. */
  async breakThings(faults: readonly Fault[], { count }: Part): Promise<PassedFault[]> {
    const passed: PassedFault[] = [];
    for (const [index, fault] of faults.entries()) {
      await this.#untilArrived(((index + 1) / (faults.length + 1)) * count);
      passed.push(await this.#commit(fault));
    }
    return passed;
  }

  async #untilArrived(enough: number): Promise<void> {
    const deadline = performance.now() + FAULT_TIMEOUT_MS;
    while ((await this.#scene.load.progress()).attempts < enough) {
      if (performance.now() > deadline) {
        throw new Error(`fewer than ${enough} requests arrived`);
      }
      await delay(POLL_MS);
    }
  }

  async #commit(fault: Fault): Promise<PassedFault> {
    const victim = victimOf(this.#scene, fault.victim);
    if (fault.kind === "stop") {
      const inFlight = await this.#inFlight();
      victim.pause();
      await delay(this.#size.stopMs);
      victim.resume();
      const backAtMs = monotonicMs();
      return { inFlight, backAtMs, takesWorkMs: backAtMs };
    }
    // Of the worker, afterwards: what it had sent and not written by its end.
    const before = fault.victim === "worker" ? undefined : await this.#inFlight();
    await victim.kill();
    await delay(ECHO_MS);
    const inFlight = before ?? (await this.#inFlight());
    await delay(RESTART_AFTER_MS - ECHO_MS);
    const backAtMs = monotonicMs();
    await victim.restart();
    return { inFlight, backAtMs, takesWorkMs: monotonicMs() };
  }

  /** Requests that have arrived and are not on record. */
  async #inFlight(): Promise<number> {
    const recorded = await this.recorded();
    return Math.max(0, (await this.#scene.load.progress()).attempts - recorded);
  }
}

/** Runs a case on a quiet system; leaves it quiet, unless something is stuck. */
export async function runCase(scene: Scene, chaos: ChaosCase, size: Size): Promise<CaseResult> {
  const { world, load } = scene;
  const began = performance.now();
  const parts = await planTraffic(world, load, chaos, size);
  const run = randomBytes(RUN_LENGTH / 2).toString("hex");
  const experiment = new Experiment(scene, size);
  await experiment.begin(run, size.events);
  const watch = watchOldest(world);
  const publishing = publishParts(world, load, run, parts);
  const [main] = parts;
  const [published, faults] = await Promise.all([
    publishing,
    main === undefined ? [] : experiment.breakThings(chaos.faults, main),
  ]);
  await load.drain(({ ok }) => ok >= size.events, DRAIN);
  const left = await untilNone(async () => await undelivered(world), SETTLE_MS);
  const openWorkflows = await untilNone(async () => await openCarriers(world), SETTLE_MS);
  // The gauge follows within seconds.
  await untilNone(async () => ((await oldestUnattempted(world)) === 0 ? 0 : 1), SETTLE_MS);
  const oldest = { end: await oldestUnattempted(world), max: await watch.end() };
  return describeResult({
    chaos,
    parts: published,
    arrivals: await load.report(),
    faults,
    recorded: await experiment.recorded(),
    late: await timedOutAttempts(world, punctualUrls(parts, chaos)),
    oldest,
    undelivered: left,
    openWorkflows,
    seconds: (performance.now() - began) / 1_000,
  });
}
