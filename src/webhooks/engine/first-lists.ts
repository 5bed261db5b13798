/**
 * Lists of first attempts (decision 0004). A claim adds to the open list, and its requests leave at once. The workflow
 * that carries the list starts when the list is full, or after a second: it joins the requests and records them.
 */
import type { Logger } from "pino";
import { type Batcher, createBatcher } from "../../database/batcher.ts";
import type { Pool } from "../../database/pool.ts";
import {
  type Claimed,
  type ClaimedFirst,
  type FirstClaim,
  findUnstartedLists,
  removeUnstartedLists,
} from "../../database/repositories/webhooks/claims.ts";
import type { Clock } from "../../domain/clock.ts";
import { newId, type RandomBytes } from "../../domain/ids.ts";
import { TokenBucket } from "../../domain/token-buckets.ts";
import type { AttemptService } from "./attempt-service.ts";
import type { BusyTenants } from "./busy-tenants.ts";
import type { CarrierStarter } from "./carrier-starter.ts";
import { startList } from "./hand-back.ts";
import type { Starts } from "./starts.ts";

/** How long a list stays open for further members. Their requests do not wait for it. */
const LINGER_MS = 1_000;
/** A full list is filled by at most this many claims. */
const CLAIMS_PER_LIST = 4;
/** Members of lists without a workflow, while Temporal is unavailable. Further deliveries wait in the outbox. */
const MEMBERS_MAX = 16_384;
/** Lists per second that start early because a member failed. Other members leave for lists of their endpoint. */
const KEPT_PER_SECOND = 10;
const KEPT_BURST = 3;
/** A list has certainly been noted, and its worker has sent a heartbeat, after this time. */
const SETTLED_MS = 10_000;
const SWEEP_MAX = 200;
const REMOVALS_MAX = 500;

/** A list whose workflow has not been started. */
interface FirstList {
  /** Changes once: to the id of its only member. Then the list takes no others. */
  carrier: string;
  /** The offsets of its attempts, in milliseconds: the same at every try to start it. */
  readonly draw: readonly number[];
  readonly members: Claimed[];
  /** The attempts made at the claims. Each ends within about a second: with its outcome, or with a lease. */
  readonly attempts: Promise<unknown>[];
  timer: NodeJS.Timeout | undefined;
  /** Whether a claim for it is in progress, so that it cannot be closed. */
  claiming: boolean;
  /** Whether it closes after that claim. */
  due: boolean;
  closed: boolean;
}

export interface FirstListsOptions {
  /** Id of this worker in claims. */
  readonly worker: string;
  readonly pool: Pool;
  readonly attempts: AttemptService;
  readonly starter: CarrierStarter;
  readonly starts: Starts;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
  /** Maximum number of members; 1 gives each delivery its own workflow. */
  readonly batchMax: number;
  readonly busy: Pick<BusyTenants, "begin">;
}

export class FirstLists {
  readonly #options: FirstListsOptions;
  /** Every list without a workflow, by carrier. */
  readonly #lists = new Map<string, FirstList>();
  readonly #starting = new Set<Promise<void>>();
  readonly #removals: Batcher<string, void>;
  readonly #kept = new TokenBucket(KEPT_BURST, performance.now());
  #open: FirstList | undefined;
  /** Whether the last list had several members. Then the next one will, too. */
  #several = false;
  #members = 0;

  constructor(options: FirstListsOptions) {
    this.#options = options;
    this.#removals = createBatcher({
      maxItems: REMOVALS_MAX,
      maxInFlight: 1,
      flush: async (carriers) => {
        await removeUnstartedLists(options.pool, carriers);
        return carriers.map(() => undefined);
      },
    });
  }

  /** Whether as many deliveries wait for their workflow as the memory may hold. */
  get isFull(): boolean {
    return this.#members >= MEMBERS_MAX;
  }

  /** Returns how many deliveries the next claim may take. A list with few free places is closed if more wait. */
  room(waiting: number): number {
    const { batchMax } = this.#options;
    if (this.#open === undefined) {
      return batchMax;
    }
    const room = batchMax - this.#open.members.length;
    if (waiting <= room || room * CLAIMS_PER_LIST >= batchMax) {
      return room;
    }
    this.#close(this.#open);
    return batchMax;
  }

  /**
   * Claims for the open list, and sends the requests of what was claimed. If the claim fails, it may still have been
   * made: a sweep then starts the list with all of its members.
   */
  async claim<T extends { readonly claimed: readonly ClaimedFirst[] }>(
    claim: (list: Pick<FirstClaim, "carrier" | "alone">) => Promise<T>,
  ): Promise<T> {
    const wasAlone = this.#closeAlone();
    const list = this.#open ?? this.#openList();
    list.claiming = true;
    try {
      const alone = list.members.length === 0 && !wasAlone && !this.#several;
      const result = await claim({ carrier: list.carrier, alone });
      this.#add(list, result.claimed);
      return result;
    } catch (error) {
      this.#abandon(list);
      throw error;
    } finally {
      list.claiming = false;
      if (list.due || list.members.length >= this.#options.batchMax) {
        this.#close(list);
      }
    }
  }

  /** Starts the lists of workers that have ended, and those that this worker gave up. */
  async sweep(): Promise<void> {
    const { pool, worker, clock } = this.#options;
    const unstarted = await findUnstartedLists(pool, {
      worker,
      except: [...this.#lists.keys()],
      openedBefore: new Date(clock.now() - SETTLED_MS),
      limit: SWEEP_MAX,
    });
    for (const { carrier, members } of unstarted) {
      if (members.length === 0) {
        this.#forget(carrier);
      } else {
        await this.#begin(carrier, async () => await startList(this.#options, carrier, members));
      }
    }
  }

  /** Closes the open list. Resolves when no list is about to start: each has its workflow, or waits for a sweep. */
  async settle(): Promise<void> {
    if (this.#open !== undefined) {
      this.#close(this.#open);
    }
    await Promise.allSettled(this.#starting);
    await this.#removals.drain();
  }

  #openList(): FirstList {
    const { clock, randomBytes, starter } = this.#options;
    const list: FirstList = {
      carrier: newId("batch", clock.now(), randomBytes),
      draw: starter.draw(),
      members: [],
      attempts: [],
      timer: undefined,
      claiming: false,
      due: false,
      closed: false,
    };
    this.#open = list;
    return list;
  }

  #add(list: FirstList, claimed: readonly ClaimedFirst[]): void {
    const [first] = claimed;
    if (first === undefined) {
      return;
    }
    if (list.members.length === 0) {
      list.carrier = first.carrier;
      list.timer = setTimeout(() => this.#close(list), LINGER_MS);
      this.#lists.set(list.carrier, list);
    }
    for (const { loaded: _loaded, ...member } of claimed) {
      // A delivery that was replayed or handed back at once may return to this list. Its earlier claim has ended.
      const earlier = list.members.findIndex(({ deliveryId }) => deliveryId === member.deliveryId);
      list.members.splice(earlier < 0 ? list.members.length : earlier, 1, member);
      this.#members += earlier < 0 ? 1 : 0;
    }
    const { attempts, starter, log } = this.#options;
    const request = starter.firstAttempts(
      list.carrier,
      claimed,
      list.draw,
      (endpointId) => !this.#keeps(list, endpointId),
    );
    const loaded = claimed.map((member) => member.loaded);
    const ended = this.#options.busy.begin(claimed);
    list.attempts.push(
      attempts
        .run(request, loaded)
        // The workflow's activity handles any failure.
        .catch((error: unknown) => {
          log.debug({ err: error, carrier: list.carrier }, "first attempts were not made at their claim");
        })
        .finally(ended),
    );
  }

  /**
   * Decides whether a failed member stays with its list. A list of one endpoint keeps its members, and starts at once,
   * so that their workflow holds their timers. Too many such starts would cost more than lists by endpoint.
   */
  #keeps(list: FirstList, endpointId: string): boolean {
    if (list.members.some((member) => member.endpointId !== endpointId)) {
      return false;
    }
    if (list.closed) {
      return true;
    }
    if (list.claiming || this.#kept.take(KEPT_PER_SECOND, KEPT_BURST, performance.now()) > 0) {
      return false;
    }
    this.#close(list);
    return true;
  }

  /**
   * Closes the open list if it has its member's id. A signal to that id must not reach others.
   *
   * @returns whether it did
   */
  #closeAlone(): boolean {
    const list = this.#open;
    if (list === undefined || list.carrier !== list.members[0]?.deliveryId) {
      return false;
    }
    this.#close(list);
    return true;
  }

  /** Closes a list, but not during a claim for it: the workflow must know every member. */
  #close(list: FirstList): void {
    if (list.closed) {
      return;
    }
    if (list.claiming) {
      list.due = true;
      return;
    }
    this.#shut(list);
    if (list.members.length > 0) {
      const starting = this.#start(list).finally(() => this.#starting.delete(starting));
      this.#starting.add(starting);
    }
  }

  #abandon(list: FirstList): void {
    this.#shut(list);
    this.#end(list);
  }

  /** Lets no further claim add to a list. */
  #shut(list: FirstList): void {
    list.closed = true;
    this.#several = list.members.length > 1;
    clearTimeout(list.timer);
    this.#open = this.#open === list ? undefined : this.#open;
  }

  #end({ carrier, members }: FirstList): void {
    if (this.#lists.delete(carrier)) {
      this.#members -= members.length;
    }
  }

  /**
   * Starts a list's workflow once its requests are answered or leased. Until then a workflow that runs in another
   * process could send them again.
   */
  async #start(list: FirstList): Promise<void> {
    const { carrier, members, draw, attempts } = list;
    await Promise.all(attempts);
    try {
      const { ended } = await this.#begin(
        carrier,
        async () => await startList(this.#options, carrier, members, draw),
      );
      await ended;
    } finally {
      this.#end(list);
    }
  }

  /** Begins a start once a slot is free, and forgets the list once its workflow runs. */
  async #begin(carrier: string, start: () => Promise<unknown>): Promise<{ readonly ended: Promise<void> }> {
    const { started } = await this.#options.starts.begin(carrier, start);
    return { ended: started.then((runs) => (runs ? this.#forget(carrier) : undefined)) };
  }

  #forget(carrier: string): void {
    this.#removals.add(carrier).catch((error: unknown) => {
      this.#options.log.debug({ err: error, carrier }, "a started list is still noted");
    });
  }
}
