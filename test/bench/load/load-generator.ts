/** The publisher and the sink, as scenarios use them. */
import { setTimeout as delay } from "node:timers/promises";
import type { ArrivalProgress, ArrivalReport } from "./arrivals.ts";
import type { Behaviour } from "./behaviour.ts";
import type { Published, PublishPlan } from "./publish-plan.ts";
import { monotonicMs } from "./monotonic.ts";
import { Served } from "./rpc.ts";

const PROGRESS_MS = 50;

/** An endpoint of the sink. */
export interface SinkEndpoint {
  readonly url: string;
  readonly number: number;
}

export interface DrainLimits {
  /** Stop if nothing has arrived for this long. */
  readonly idleMs: number;
  readonly maxMs: number;
}

export class LoadGenerator {
  readonly #sink = new Served(new URL("./sink-process.ts", import.meta.url));
  readonly #publisher = new Served(new URL("./publisher-process.ts", import.meta.url));

  get pids(): { readonly publisher: number; readonly sink: number } {
    return { publisher: this.#publisher.pid, sink: this.#sink.pid };
  }

  /** Opens listeners for `count` endpoints. */
  async openEndpoints(count: number): Promise<SinkEndpoint[]> {
    return await this.#sink.call<SinkEndpoint[]>("open", count);
  }

  /** Opens one listener for `count` endpoints, each at a loopback address of its own. */
  async openAddresses(count: number): Promise<SinkEndpoint[]> {
    return await this.#sink.call<SinkEndpoint[]>("openAddresses", count);
  }

  /** Returns the number of connections that the sink has accepted so far. */
  async connections(): Promise<number> {
    return await this.#sink.call<number>("connections");
  }

  /** Empties the sink's tables for a run of `events` events. */
  async begin(run: string, events: number, slots = 1): Promise<void> {
    await this.#sink.call("begin", { run, events, slots });
  }

  /** Like {@link begin}, and writes each arrival to the `ledger` file before answering it. */
  async beginLedger(run: string, events: number, ledger: string): Promise<void> {
    await this.#sink.call("begin", { run, events, slots: 1, ledger });
  }

  /** Resolves when every line of the ledger is on disk. */
  async settleLedger(): Promise<void> {
    await this.#sink.call("settle");
  }

  /** Refuses connections to these endpoints until {@link bringUp}. */
  async takeDown(endpoints: readonly SinkEndpoint[]): Promise<void> {
    await this.#sink.call(
      "down",
      endpoints.map(({ number }) => number),
    );
  }

  async bringUp(endpoints: readonly SinkEndpoint[]): Promise<void> {
    await this.#sink.call(
      "up",
      endpoints.map(({ number }) => number),
    );
  }

  async behave(endpoints: readonly SinkEndpoint[], behaviour: Behaviour): Promise<void> {
    await this.#sink.call("behave", { endpoints: endpoints.map(({ number }) => number), behaviour });
  }

  async publish(plan: PublishPlan): Promise<Published> {
    return await this.#publisher.call<Published>("publish", plan);
  }

  async progress(): Promise<ArrivalProgress> {
    return await this.#sink.call<ArrivalProgress>("progress");
  }

  async report(): Promise<ArrivalReport> {
    return await this.#sink.call<ArrivalReport>("report");
  }

  /** Waits until `enough` returns true, or until nothing more arrives. */
  async drain(enough: (progress: ArrivalProgress) => boolean, limits: DrainLimits): Promise<void> {
    const began = monotonicMs();
    for (;;) {
      const progress = await this.progress();
      const now = monotonicMs();
      const quietMs = now - Math.max(began, progress.lastAtMs);
      if (enough(progress) || quietMs > limits.idleMs || now - began > limits.maxMs) {
        return;
      }
      await delay(PROGRESS_MS);
    }
  }

  stop(): void {
    this.#sink.stop();
    this.#publisher.stop();
  }
}
