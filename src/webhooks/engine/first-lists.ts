/**
 * Lists of first attempts (decision 4). A claim adds to the open list, and its requests leave at once. So does an
 * insert that hands its deliveries over (decision 42). The workflow that carries the list starts when the list is full,
 * or after a second: it joins the requests and records them.
 */
import type { Logger } from "pino";
import { type Batcher, createBatcher } from "#database/batcher.ts";
import type { Pool } from "#database/pool.ts";
import {
  type Claimed,
  type ClaimedFirst,
  type FirstClaim,
  findUnstartedLists,
  removeUnstartedLists,
} from "#database/repositories/webhooks/claims.ts";
import type { Clock, Timer, Timers } from "#domain/clock.ts";
import { newId, type RandomBytes } from "#domain/ids.ts";
import { TokenBucket } from "#domain/token-buckets.ts";
import type { AwaitedInsert } from "../ingest/hand-over.ts";
import type { AttemptService } from "./attempt-service.ts";
import type { BusyTenants } from "./busy-tenants.ts";
import type { CarrierStarter } from "./carrier-starter.ts";
import { startList } from "./hand-back.ts";
import type { Starts } from "./starts.ts";

/** How long a list stays open for further members. Their requests do not wait for it. */
const LINGER_MS = 1_000;
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
  timer: Timer | undefined;
  /** Claims and inserts in progress that may add members. Its workflow must know each, so it starts after them. */
  pending: number;
  /** Members that inserts in progress may add. */
  promised: number;
  /** Whether it is for one delivery, whose id it has or may get. A signal to that id must not reach others. */
  alone: boolean;
  /** Whether it takes no further claims and inserts. */
  closed: boolean;
  /** Whether a sweep starts it, with the members that the database has. */
  abandoned: boolean;
}

/** Carriers for deliveries that an insert in progress writes. */
interface HandedLists extends AwaitedInsert<readonly ClaimedFirst[]> {
  /** In the order of the deliveries. */
  readonly carriers: readonly string[];
}

export interface FirstListsOptions {
  /** Id of this worker in claims. */
  readonly worker: string;
  readonly pool: Pool;
  readonly attempts: AttemptService;
  readonly starter: CarrierStarter;
  readonly starts: Starts;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
  /** Maximum number of members; 1 gives each delivery its own workflow. */
  readonly batchMax: number;
  readonly busy: Pick<BusyTenants, "begin">;
}

/** Number of members, with those that may come. */
function sizeOf({ members, promised }: FirstList): number {
  return members.length + promised;
}

export class FirstLists {
  readonly #options: FirstListsOptions;
  /** Every list without a workflow, by carrier. */
  readonly #lists = new Map<string, FirstList>();
  readonly #starting = new Set<Promise<void>>();
  readonly #removals: Batcher<string, undefined>;
  readonly #kept: TokenBucket;
  #open: FirstList | undefined;
  /** Whether the last list had several members. Then the next one will, too. */
  #several = false;
  #members = 0;
  #promised = 0;
  /** Inserts in progress that may add members. */
  readonly #inserts = new Set<Promise<undefined>>();

  constructor(options: FirstListsOptions) {
    const { timers } = options;
    this.#options = options;
    this.#kept = new TokenBucket(KEPT_BURST, timers.monotonic());
    this.#removals = createBatcher({
      timers,
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
    return this.#members + this.#promised >= MEMBERS_MAX;
  }

  /** How many deliveries the open list can still take. */
  get places(): number {
    return this.#options.batchMax - (this.#open === undefined ? 0 : sizeOf(this.#open));
  }

  /**
   * Claims for the open list, and sends the requests of what was claimed. If the claim fails, it may still have been
   * made: a sweep then starts the list with all of its members.
   *
   * @param limit how many it may claim. An open list with fewer places is closed
   */
  async claim<T extends { readonly claimed: readonly ClaimedFirst[] }>(
    limit: number,
    claim: (list: Pick<FirstClaim, "carrier" | "alone">) => Promise<T>,
  ): Promise<T> {
    if (this.#open !== undefined && limit > this.places) {
      this.#close(this.#open);
    }
    const list = this.#listFor(1);
    list.pending += 1;
    try {
      const { carrier, alone } = list;
      const result = await claim({ carrier, alone });
      this.#add(list, result.claimed);
      return result;
    } catch (error) {
      this.#abandon(list);
      throw error;
    } finally {
      this.#settled(list);
    }
  }

  /** Chooses carriers for deliveries that are about to be inserted. Their lists do not start until the insert ends. */
  handOver(ids: readonly string[]): HandedLists {
    const lists = new Map<FirstList, number>();
    const carriers = ids.map((id) => {
      const list = this.#listFor(ids.length);
      list.carrier = list.alone ? id : list.carrier;
      list.pending += lists.has(list) ? 0 : 1;
      list.promised += 1;
      this.#promised += 1;
      lists.set(list, (lists.get(list) ?? 0) + 1);
      if (sizeOf(list) >= this.#options.batchMax) {
        this.#close(list);
      }
      return list.carrier;
    });
    const { promise: insert, resolve } = Promise.withResolvers<undefined>();
    this.#inserts.add(insert);
    const each = (act: (list: FirstList) => void): void => {
      this.#inserts.delete(insert);
      resolve(undefined);
      for (const [list, count] of lists) {
        list.promised -= count;
        this.#promised -= count;
        act(list);
        this.#settled(list);
      }
    };
    return {
      carriers,
      inserted: (claimed) => {
        each((list) =>
          this.#add(
            list,
            claimed.filter(({ carrier }) => carrier === list.carrier),
          ),
        );
      },
      failed: () => each((list) => this.#abandon(list)),
    };
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

  /**
   * Closes the open list, after the inserts in progress. Resolves when no list is about to start: each has its workflow, or
   * waits for a sweep.
   */
  async settle(): Promise<void> {
    await Promise.all(this.#inserts);
    if (this.#open !== undefined) {
      this.#close(this.#open);
    }
    await Promise.allSettled(this.#starting);
    await this.#removals.drain();
  }

  /**
   * Returns the open list, or opens one. After a list with several members, and after one for a delivery alone, more are
   * expected to follow.
   *
   * @param count how many deliveries are known to come
   */
  #listFor(count: number): FirstList {
    const wasAlone = this.#closeAlone();
    const list = this.#open ?? this.#openList();
    list.alone = count === 1 && sizeOf(list) === 0 && list.pending === 0 && !wasAlone && !this.#several;
    return list;
  }

  #openList(): FirstList {
    const { clock, randomBytes, starter } = this.#options;
    const list: FirstList = {
      carrier: newId("batch", clock.now(), randomBytes),
      draw: starter.draw(),
      members: [],
      attempts: [],
      timer: undefined,
      pending: 0,
      promised: 0,
      alone: false,
      closed: false,
      abandoned: false,
    };
    this.#open = list;
    return list;
  }

  #add(list: FirstList, claimed: readonly ClaimedFirst[]): void {
    const [first] = claimed;
    if (first === undefined || list.abandoned) {
      return;
    }
    if (list.members.length === 0) {
      list.carrier = first.carrier;
      list.alone = first.carrier === first.delivery_id;
      if (!list.closed) {
        list.timer = this.#options.timers.after(LINGER_MS, () => this.#close(list));
      }
      this.#lists.set(list.carrier, list);
    }
    for (const { loaded: _loaded, ...member } of claimed) {
      // A delivery that was replayed or handed back at once may return to this list. Its earlier claim has ended.
      const earlier = list.members.findIndex((one) => one.delivery_id === member.delivery_id);
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
    if (list.members.some((member) => member.endpoint_id !== endpointId)) {
      return false;
    }
    if (list.pending > 0) {
      return false;
    }
    if (list.closed) {
      return true;
    }
    if (this.#kept.take(KEPT_PER_SECOND, KEPT_BURST, this.#options.timers.monotonic()) > 0) {
      return false;
    }
    this.#close(list);
    return true;
  }

  /** Closes the open list if it is for one delivery. @returns whether it did */
  #closeAlone(): boolean {
    const list = this.#open;
    if (list?.alone !== true) {
      return false;
    }
    this.#close(list);
    return true;
  }

  /** Lets no further claim or insert add to a list, and starts it after those in progress. */
  #close(list: FirstList): void {
    if (!list.closed) {
      this.#shut(list);
      this.#startIfDue(list);
    }
  }

  /** Notes the end of a claim or an insert. */
  #settled(list: FirstList): void {
    list.pending -= 1;
    if (list.alone && list.members.length === 0) {
      // It may have the id of a delivery that waits in the outbox.
      this.#shut(list);
    } else if (list.closed) {
      this.#startIfDue(list);
    } else if (list.members.length >= this.#options.batchMax) {
      this.#close(list);
    }
  }

  #startIfDue(list: FirstList): void {
    if (list.pending === 0 && !list.abandoned && list.members.length > 0) {
      const starting = this.#start(list).finally(() => this.#starting.delete(starting));
      this.#starting.add(starting);
    }
  }

  #abandon(list: FirstList): void {
    list.abandoned = true;
    this.#shut(list);
    this.#end(list);
  }

  #shut(list: FirstList): void {
    list.closed = true;
    this.#several = sizeOf(list) > 1;
    this.#options.timers.cancel(list.timer);
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
