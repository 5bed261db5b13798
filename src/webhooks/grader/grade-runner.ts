/**
 * Runs requested grades. The database records which are waiting and which are running. If a worker loses a grade,
 * another one repeats it, at most twice. Then it ends as FAILED, so no grade stays open forever.
 */
import type { Logger } from "pino";
import type { Pool } from "#database/pool.ts";
import {
  continueGrade,
  failLostGrades,
  finishGrade,
  loadForGrade,
  requeueGrade,
  takeGrade,
  type TakenGrade,
} from "#database/repositories/endpoints/endpoint-grades.ts";
import type { EndpointTarget } from "#database/repositories/stored-secrets.ts";
import type { OpenSecrets } from "../sending/open-secrets.ts";
import type { ReceiverAccess } from "../sending/receiver-access.ts";
import type { Signer } from "../sending/signer.ts";
import type { GuardedClock, Timers } from "#domain/clock.ts";
import type { RandomBytes } from "#domain/ids.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import { type GradeLimits, GRADE_LIMITS, gradeReceiver } from "./grade.ts";

/** For grades lost by a worker, which no notification reports. */
const POLL_MS = 30_000;
const AT_ONCE_MAX = 4;
const RUNS_MAX = 2;
/** Time beyond the limit of a grade, for its last request and for writing its result. */
const LEASE_RESERVE_MS = 40_000;

export interface GradeRunnerOptions {
  /** Role signet_worker. */
  readonly pool: Pool;
  /** For endpoints with custom headers or authentication. */
  readonly access: ReceiverAccess;
  readonly signer: Signer;
  readonly openSecrets: OpenSecrets;
  readonly headerBrand: string;
  readonly clock: GuardedClock;
  readonly timers: Timers;
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
  readonly limits?: Partial<GradeLimits>;
}

export class GradeRunner {
  readonly #options: GradeRunnerOptions;
  readonly #running = new Set<Promise<void>>();
  #stopping = false;
  #looking: Promise<void> | null = null;
  /** Whether it was woken during a read, which may have missed the new grade. */
  #lookAgain = false;

  constructor(options: GradeRunnerOptions) {
    this.#options = options;
  }

  /** The job that runs requested grades. */
  get job(): UpkeepJob {
    return {
      name: "grades",
      everyMs: POLL_MS,
      run: async () => await this.poll(),
      end: async () => await this.stop(),
    };
  }

  /** Reports that a grade may be waiting. */
  wake(): void {
    this.poll().catch((error: unknown) =>
      this.#options.log.warn({ err: error }, "waiting grades could not be read"),
    );
  }

  /** Starts waiting grades, a few at a time, without waiting for their ends. Only one read runs at a time. */
  async poll(): Promise<void> {
    if (this.#looking !== null) {
      this.#lookAgain = true;
      await this.#looking;
      return;
    }
    this.#looking = this.#look().finally(() => {
      this.#looking = null;
      if (this.#lookAgain) {
        this.#lookAgain = false;
        this.wake();
      }
    });
    await this.#looking;
  }

  async #look(): Promise<void> {
    const { pool, clock } = this.#options;
    if (this.#stopping || !clock.isRight) {
      return;
    }
    const now = new Date(clock.now());
    await failLostGrades(pool, { now, runsMax: RUNS_MAX });
    while (!this.#stopping && this.#running.size < AT_ONCE_MAX) {
      const leaseUntil = new Date(now.getTime() + GRADE_LIMITS.overallMs + LEASE_RESERVE_MS);
      const taken = await takeGrade(pool, { now, leaseUntil, runsMax: RUNS_MAX });
      if (taken === undefined) {
        return;
      }
      const run = this.#make(taken)
        .catch((error: unknown) =>
          // Another run takes the grade once its lease expires.
          this.#options.log.warn({ err: error, grade_id: taken.id }, "a grade was interrupted"),
        )
        .finally(() => {
          this.#running.delete(run);
          // More grades may wait than may run concurrently.
          this.wake();
        });
      this.#running.add(run);
    }
  }

  /** Stops after the requests in progress. Other workers take unfinished grades. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#looking?.catch(() => undefined);
    await Promise.all(this.#running);
  }

  async #make(taken: TakenGrade): Promise<void> {
    const { pool, clock } = this.#options;
    const target = await loadForGrade(pool, taken.endpointId);
    let gradable = target !== undefined;
    const report =
      target === undefined
        ? null
        : await this.#grade(taken, target, async (made) => {
            gradable = gradable && (await continueGrade(pool, taken, { url: target.url, made }));
            return gradable && !this.#stopping;
          });
    const now = new Date(clock.now());
    if (!gradable) {
      await finishGrade(pool, taken, { report: null, failure: "endpoint_not_active", now });
    } else if (this.#stopping) {
      await requeueGrade(pool, taken);
    } else {
      await finishGrade(pool, taken, { report: JSON.stringify(report), failure: null, now });
    }
  }

  async #grade(
    taken: TakenGrade,
    target: EndpointTarget,
    mayContinue: (made: number) => Promise<boolean>,
  ): Promise<unknown> {
    const { endpointId } = taken;
    const { access, openSecrets, signer, headerBrand, clock, timers, randomBytes, limits } = this.#options;
    const secrets = await openSecrets(target);
    return await gradeReceiver(
      target.url,
      { gradeId: taken.id, endpointId, secrets },
      {
        http: { send: (request) => access.send(request, target) },
        signer,
        headerBrand,
        clock,
        randomBytes,
        wait: timers.sleep,
        mayContinue,
        limits: limits ?? {},
      },
    );
  }
}
