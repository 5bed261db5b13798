/** One run of events through the service, with the ledger that records their fate. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Stack } from "../bench/environment/stack.ts";
import type { World } from "../bench/environment/world.ts";
import { RUN_LENGTH } from "../bench/load/event-id.ts";
import type { LoadGenerator } from "../bench/load/load-generator.ts";
import type { JumpingClock } from "../support/jumping-clock.ts";
import type { TcpProxy } from "../support/tcp-proxy.ts";
import { type Fate, type LedgerFiles, ledgerFiles, readLedger } from "./ledger.ts";
import {
  miscounted,
  oldestUnattempted,
  openCarriers,
  recordedAttempts,
  undelivered,
  untilNone,
  watchOldest,
} from "./observe.ts";
import type { SmallDisk } from "./small-disk.ts";
import { type Part, publishParts, type PublishedPart } from "./traffic.ts";

const POLL_MS = 5;
const DRAIN = { idleMs: 90_000, maxMs: 240_000 };
/** A delivery whose claim was lost gets another workflow within two minutes (docs/guarantees.md). */
const SETTLE_MS = 120_000;
const ARRIVAL_TIMEOUT_MS = 180_000;

/** The environment of a case. */
export interface Scene {
  readonly stack: Stack;
  readonly world: World;
  readonly load: LoadGenerator;
  readonly quick: boolean;
  /** The case's own disk, if it needs one. */
  readonly disk?: SmallDisk | undefined;
  /** Proxy between Signet and PostgreSQL, if the case needs one. */
  readonly proxy?: TcpProxy | undefined;
  /** The clock of apis or workers, if the case sets it. */
  readonly clock?: JumpingClock | undefined;
}

/** State of the system after the last arrival. */
export interface Settled {
  /** Number of deliveries that have not arrived, and of open workflows. */
  readonly undelivered: number;
  readonly openWorkflows: number;
  /** Number of counts that disagree with the rows. */
  readonly miscounted: number;
  /** Highest value of the gauge, and its value at the end. */
  readonly oldest: { readonly max: number; readonly end: number };
}

export interface DrainLimits {
  readonly idleMs: number;
  readonly maxMs: number;
}

export class Trial {
  readonly scene: Scene;
  readonly run: string;
  readonly events: number;
  readonly #files: LedgerFiles;
  readonly #recordedBefore: number;
  readonly #watch: ReturnType<typeof watchOldest>;

  private constructor(scene: Scene, events: number, recordedBefore: number) {
    this.scene = scene;
    this.events = events;
    this.run = randomBytes(RUN_LENGTH / 2).toString("hex");
    this.#files = ledgerFiles(join(scene.stack.directory), this.run);
    this.#recordedBefore = recordedBefore;
    this.#watch = watchOldest(scene.world);
  }

  /** Begins a ledger for `events` events, which the receiver keeps from then on. */
  static async begin(scene: Scene, events: number): Promise<Trial> {
    const trial = new Trial(scene, events, await recordedAttempts(scene.world));
    await scene.load.beginLedger(trial.run, events, trial.#files.arrived);
    return trial;
  }

  /** Resolves when each event of the parts was accepted or given up. */
  async publish(parts: readonly Part[], apiUrl?: string): Promise<PublishedPart[]> {
    const { world, load } = this.scene;
    return await publishParts({ world, load, apiUrl }, parts, {
      run: this.run,
      ledger: this.#files.accepted,
    });
  }

  /** Returns the number of this run's attempts with a recorded outcome. */
  async recorded(): Promise<number> {
    return (await recordedAttempts(this.scene.world)) - this.#recordedBefore;
  }

  /** Returns the number of requests that have arrived and are not on record. */
  async inFlight(): Promise<number> {
    const recorded = await this.recorded();
    return Math.max(0, (await this.scene.load.progress()).attempts - recorded);
  }

  async untilArrived(enough: number): Promise<void> {
    const deadline = performance.now() + ARRIVAL_TIMEOUT_MS;
    while ((await this.scene.load.progress()).attempts < enough) {
      if (performance.now() > deadline) {
        throw new Error(`timed out before ${enough} requests arrived`);
      }
      await delay(POLL_MS);
    }
  }

  /** Waits until the system is quiet and returns its state. */
  async settle(limits: DrainLimits = DRAIN): Promise<Settled> {
    const { world, load } = this.scene;
    await load.drain(({ ok }) => ok >= this.events, limits);
    const left = await untilNone(async () => await undelivered(world), SETTLE_MS);
    const openWorkflows = await untilNone(async () => await openCarriers(world), SETTLE_MS);
    // The gauge updates within seconds, and a busy worker may not report it in time.
    let end = Number.NaN;
    await untilNone(async () => {
      end = await oldestUnattempted(world);
      return end === 0 ? 0 : 1;
    }, SETTLE_MS);
    const oldest = { end, max: await this.#watch.end() };
    return { undelivered: left, openWorkflows, miscounted: await miscounted(world), oldest };
  }

  /** Returns both ledger files, joined, in their current state. */
  async fates(): Promise<Fate[]> {
    await this.scene.load.settleLedger();
    return await readLedger(this.#files);
  }

  /** Ends the watchers, also after a failed case. */
  async end(): Promise<void> {
    await this.#watch.end();
  }
}
