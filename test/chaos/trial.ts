/** One run of events through the service, with the ledger that says what became of them. */
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
const SETTLE_MS = 60_000;
const ARRIVAL_TIMEOUT_MS = 180_000;

/** What a case happens to. */
export interface Scene {
  readonly stack: Stack;
  readonly world: World;
  readonly load: LoadGenerator;
  readonly quick: boolean;
  /** What a case put on it, where it asked for one. */
  readonly disk?: SmallDisk | undefined;
  /** Between the processes of Signet and PostgreSQL, where a case asked for it. */
  readonly proxy?: TcpProxy | undefined;
  /** The workers', where a case asked for it. */
  readonly clock?: JumpingClock | undefined;
}

/** How things are when nothing more comes. */
export interface Settled {
  /** Deliveries that have not arrived, and workflows that are open. */
  readonly undelivered: number;
  readonly openWorkflows: number;
  /** Greatest value of the gauge, and its value at the end. */
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

  /** Begins a ledger for so many events; the receiver keeps it from then on. */
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

  /** Attempts of this run that have an outcome on record. */
  async recorded(): Promise<number> {
    return (await recordedAttempts(this.scene.world)) - this.#recordedBefore;
  }

  /** Requests that have arrived and are not on record. */
  async inFlight(): Promise<number> {
    const recorded = await this.recorded();
    return Math.max(0, (await this.scene.load.progress()).attempts - recorded);
  }

  async untilArrived(enough: number): Promise<void> {
    const deadline = performance.now() + ARRIVAL_TIMEOUT_MS;
    while ((await this.scene.load.progress()).attempts < enough) {
      if (performance.now() > deadline) {
        throw new Error(`fewer than ${enough} requests arrived`);
      }
      await delay(POLL_MS);
    }
  }

  /** Waits until all is quiet, and says how quiet. */
  async settle(limits: DrainLimits = DRAIN): Promise<Settled> {
    const { world, load } = this.scene;
    await load.drain(({ ok }) => ok >= this.events, limits);
    const left = await untilNone(async () => await undelivered(world), SETTLE_MS);
    const openWorkflows = await untilNone(async () => await openCarriers(world), SETTLE_MS);
    // The gauge follows within seconds.
    await untilNone(async () => ((await oldestUnattempted(world)) === 0 ? 0 : 1), SETTLE_MS);
    const oldest = { end: await oldestUnattempted(world), max: await this.#watch.end() };
    return { undelivered: left, openWorkflows, oldest };
  }

  /** Both files of the ledger as they are now. */
  async fates(): Promise<Fate[]> {
    await this.scene.load.settleLedger();
    return await readLedger(this.#files);
  }

  /** Ends what watches, also of a case that failed. */
  async end(): Promise<void> {
    await this.#watch.end();
  }
}
