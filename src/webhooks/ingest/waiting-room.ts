/** What waits for the flushes of a batcher (fair-batcher.ts), in all and by owner. */
import { WAITING_ITEMS_MAX } from "#database/batcher.ts";
import { DatabaseBusyError } from "#database/errors.ts";

/** For this long after the items of one owner, more are expected. */
export const OTHERS_MS = 1_000;
/** A rest is short, however slow the flushes are: a client waits for its large batch, and would repeat it. */
const REST_MAX_MS = 100;

/** Limits of flushes, and of what waits for them. */
export interface WaitingOptions<Item> {
  /** Maximum number of items per flush. */
  readonly maxItems: number;
  /** Maximum number of concurrent flushes. */
  readonly maxInFlight: number;
  /** Also limits a flush by size. An item that alone exceeds `max` is flushed alone. */
  readonly size?: { readonly of: (item: Item) => number; readonly max: number; readonly maxWaiting?: number };
  /** Also limits a flush by the rows that it writes. An item that alone exceeds `max` is flushed alone. */
  readonly rows?: { readonly of: (item: Item) => number; readonly max: number };
  /** Maximum number of waiting items; 10,000 by default. Use Infinity only if something else limits them. */
  readonly maxWaiting?: number;
  /** Separates items by owner, so that one owner's many items do not delay those of others. By default, all have one. */
  readonly owner?: OwnerOptions<Item>;
  /** By default, all items are ready. */
  readonly preparation?: Preparation<Item>;
}

/**
 * Flushes take items of the owners in turns, in order within each. None of several flushes is ever left without room for
 * others: an owner whose items fill all flushes but one waits until one of them ends.
 *
 * An owner with more than `many` waiting items or `manyRows` waiting rows does not share flushes with the others. While
 * others have items, or had some in the last second, such owners leave one flush to them and take at most `manyPerFlush`
 * items with `rowsPerFlush` rows, gently. After each flush, they rest for `restPerFlush` times as long as it took: a slow flush
 * means that others wait for the same disk and cores.
 */
export interface OwnerOptions<Item> {
  readonly of: (item: Item) => string;
  readonly many: number;
  readonly manyPerFlush: number;
  /** Unlimited by default, like `rowsPerFlush`. */
  readonly manyRows?: number;
  readonly rowsPerFlush?: number;
  /** None by default. */
  readonly restPerFlush?: number;
  /** Each owner may take half of the waiting room. Beyond that, its items are rejected with this error. */
  readonly refusal: () => Error;
}

/**
 * What items need before they are flushed. It is made for each owner apart, for its oldest items at once, while flushes
 * take what is ready of the others. Thus a slow or failed preparation costs its owner alone.
 */
export interface Preparation<Item> {
  /** Called when an item enters and when it is flushed, so it must be fast. */
  readonly isReady: (item: Item) => boolean;
  /** Makes the items of one owner ready. If it fails, all waiting items of the owner that are not ready are rejected. */
  readonly prepare: (items: readonly Item[]) => Promise<unknown>;
  readonly maxItems: number;
}

/** The items of a flush. */
interface Batch<Entry> {
  readonly entries: readonly Entry[];
  /** Whether they are of owners with many. */
  readonly many: boolean;
  /** Whether others have items, or had some lately, so that it leaves room for them. */
  readonly gently: boolean;
  /** Undefined if they are of several. */
  readonly owner: string | undefined;
  readonly begunAtMs: number;
}

/** What waits of an owner, oldest first from `head`. */
interface Queue<Entry> {
  readonly entries: Entry[];
  head: number;
  size: number;
  /** As they were when the items entered, or at the last preparation. */
  rows: number;
  /** Whether it had many since it was empty. */
  isMany: boolean;
}

/** Queues by owner, in the order of their turns. */
type Queues<Entry> = Map<string, Queue<Entry>>;

/** Entries before a queue's head that are removed at once. */
const COMPACTED = 256;

/**
 * Replaces an empty map. V8 copies a map's table after some deletions, and the copy of an old table is old as well: only
 * a full garbage collection, which delays answers, frees it.
 */
function renewed<Entry>(queues: Queues<Entry>): Queues<Entry> {
  return queues.size === 0 ? new Map<string, Queue<Entry>>() : queues;
}

function sumOf<Item>(entries: readonly { readonly item: Item }[], of: (item: Item) => number): number {
  return entries.reduce((sum, { item }) => sum + of(item), 0);
}

export class WaitingRoom<Item, Entry extends { readonly item: Item }> {
  readonly #options: WaitingOptions<Item>;
  readonly #maxWaiting: number;
  readonly #sizeMax: number;
  readonly #sizeOf: (item: Item) => number;
  readonly #rowsOf: (item: Item) => number;
  readonly #isReady: (item: Item) => boolean;
  /** Of owners with few waiting items, and of those that had many since their queue was empty. */
  #few: Queues<Entry> = new Map();
  #many: Queues<Entry> = new Map();
  /** Of owners whose oldest item is not ready. */
  #apart: Queues<Entry> = new Map();
  /** Those of which no preparation has begun. */
  #unprepared: string[] = [];
  #count = 0;
  #size = 0;
  readonly #inFlight = new Set<Batch<Entry>>();
  #lastWasMany = false;
  /** While others have items, owners with many begin no flush before. */
  #restsUntilMs = Number.NEGATIVE_INFINITY;
  /** When items of owners with few were last flushed, and their owner if they had one. */
  #fewAtMs = Number.NEGATIVE_INFINITY;
  #fewOwner: string | undefined;

  constructor(options: WaitingOptions<Item>) {
    const { size, rows, preparation, maxWaiting = WAITING_ITEMS_MAX } = options;
    this.#options = options;
    this.#maxWaiting = maxWaiting;
    this.#sizeMax = size?.maxWaiting ?? Infinity;
    this.#sizeOf = size?.of ?? (() => 0);
    this.#rowsOf = rows?.of ?? (() => 0);
    this.#isReady = preparation?.isReady ?? (() => true);
  }

  get count(): number {
    return this.#count;
  }

  /** Returns why an item cannot wait; undefined if it can. */
  refusalOf(item: Item): Error | undefined {
    if (this.#isTaken(this.#count, this.#size, 1)) {
      return new DatabaseBusyError("too many items wait for the database");
    }
    const { owner } = this.#options;
    const queue = owner && this.#queueOf(owner.of(item));
    return queue !== undefined && this.#isTaken(queue.entries.length - queue.head, queue.size, 1 / 2)
      ? owner?.refusal()
      : undefined;
  }

  #isTaken(items: number, size: number, share: number): boolean {
    return items >= this.#maxWaiting * share || size >= this.#sizeMax * share;
  }

  #queueOf(owner: string): Queue<Entry> | undefined {
    return this.#many.get(owner) ?? this.#few.get(owner) ?? this.#apart.get(owner);
  }

  enter(entry: Entry): void {
    const owner = this.#options.owner?.of(entry.item) ?? "";
    const queue = this.#queueOf(owner) ?? { entries: [], head: 0, size: 0, rows: 0, isMany: false };
    const size = this.#sizeOf(entry.item);
    queue.entries.push(entry);
    queue.size += size;
    queue.rows += this.#rowsOf(entry.item);
    this.#size += size;
    this.#count += 1;
    if (!this.#apart.has(owner)) {
      this.#place(owner, queue);
    }
  }

  /** Puts a queue where it belongs. It keeps its turn if it is there. */
  #place(owner: string, queue: Queue<Entry>): void {
    const { many = Infinity, manyRows = Infinity } = this.#options.owner ?? {};
    const { entries, head, rows } = queue;
    queue.isMany ||= entries.length - head > many || rows > manyRows;
    const ready = this.#isReady((entries[head] as Entry).item);
    const among = queue.isMany ? this.#many : this.#few;
    if (ready && among.has(owner)) {
      return;
    }
    this.#few.delete(owner);
    this.#many.delete(owner);
    (ready ? among : this.#apart).set(owner, queue);
    if (!ready) {
      this.#unprepared.push(owner);
    }
  }

  /** Returns owners whose preparation has to begin, each with its oldest items. */
  unprepared(): { readonly owner: string; readonly items: readonly Item[] }[] {
    const max = this.#options.preparation?.maxItems ?? 0;
    return this.#unprepared.splice(0).map((owner) => {
      const { entries, head } = this.#apart.get(owner) as Queue<Entry>;
      return { owner, items: entries.slice(head, head + max).map(({ item }) => item) };
    });
  }

  /** Ends the preparation of an owner. If it failed, takes and returns the entries that are not ready. */
  prepared(owner: string, failed: boolean): readonly Entry[] {
    const queue = this.#apart.get(owner) as Queue<Entry>;
    this.#apart.delete(owner);
    this.#apart = renewed(this.#apart);
    const kept: Entry[] = [];
    const lost: Entry[] = [];
    for (const entry of queue.entries.splice(0).slice(queue.head)) {
      (failed && !this.#isReady(entry.item) ? lost : kept).push(entry);
    }
    queue.entries.push(...kept);
    queue.head = 0;
    queue.rows = sumOf(kept, this.#rowsOf);
    const lostSize = sumOf(lost, this.#sizeOf);
    queue.size -= lostSize;
    this.#size -= lostSize;
    this.#count -= lost.length;
    if (kept.length > 0) {
      this.#place(owner, queue);
    }
    return lost;
  }

  /** Takes the next flush; undefined if nothing may be flushed now. With both kinds waiting, each has its flush. */
  next(nowMs: number): Batch<Entry> | undefined {
    const manyFirst = this.#many.size > 0 && this.#manyInFlight === 0 && !this.#lastWasMany;
    return manyFirst
      ? (this.#nextMany(nowMs) ?? this.#nextFew(nowMs))
      : (this.#nextFew(nowMs) ?? this.#nextMany(nowMs));
  }

  get #manyInFlight(): number {
    return [...this.#inFlight].filter(({ many }) => many).length;
  }

  #nextFew(nowMs: number): Batch<Entry> | undefined {
    const [owner] = this.#few.keys();
    const alone = this.#few.size === 1 && (this.#fewOwner === owner || !this.#hadFew(nowMs));
    const entries = this.#take(this.#few, this.#options.maxItems, this.#options.rows?.max);
    this.#few = renewed(this.#few);
    if (entries.length === 0) {
      return undefined;
    }
    this.#fewOwner = alone ? owner : undefined;
    this.#fewAtMs = nowMs;
    return this.#begin(entries, { many: false, gently: false }, nowMs);
  }

  #nextMany(nowMs: number): Batch<Entry> | undefined {
    const { maxItems, maxInFlight, owner, rows } = this.#options;
    const beside = this.#isBesideFew(nowMs);
    const rests = beside && nowMs < this.#restsUntilMs;
    if (rests || this.#manyInFlight >= (beside ? Math.max(1, maxInFlight - 1) : maxInFlight)) {
      return undefined;
    }
    const { manyPerFlush = Infinity, rowsPerFlush = Infinity } = (beside && owner) || {};
    const rowsMax = Math.min(rowsPerFlush, rows?.max ?? Infinity);
    const entries = this.#take(this.#many, Math.min(manyPerFlush, maxItems), rowsMax);
    this.#many = renewed(this.#many);
    return entries.length === 0 ? undefined : this.#begin(entries, { many: true, gently: beside }, nowMs);
  }

  #begin(
    entries: readonly Entry[],
    kind: Pick<Batch<Entry>, "many" | "gently">,
    begunAtMs: number,
  ): Batch<Entry> {
    const owners = new Set(entries.map(({ item }) => this.#options.owner?.of(item)));
    const batch = { entries, ...kind, owner: owners.size === 1 ? [...owners][0] : undefined, begunAtMs };
    this.#lastWasMany = kind.many;
    this.#inFlight.add(batch);
    return batch;
  }

  #isBesideFew(nowMs: number): boolean {
    return this.#few.size > 0 || this.#expectsFew(nowMs);
  }

  /** Whether others had items lately. The first items of a batch are few, too, but not of others. */
  #expectsFew(nowMs: number): boolean {
    const own = this.#many.size === 1 && this.#fewOwner !== undefined && this.#many.has(this.#fewOwner);
    return this.#hadFew(nowMs) && !own;
  }

  #hadFew(nowMs: number): boolean {
    return nowMs - this.#fewAtMs < OTHERS_MS;
  }

  /** Notes the end of a flush. */
  ended(batch: Batch<Entry>, nowMs: number): void {
    this.#inFlight.delete(batch);
    if (batch.many && this.#isBesideFew(nowMs)) {
      const rest = (this.#options.owner?.restPerFlush ?? 0) * (nowMs - batch.begunAtMs);
      this.#restsUntilMs = nowMs + Math.min(REST_MAX_MS, rest);
    }
  }

  /** How long owners with many items still rest, in milliseconds; 0 if none of them waits. */
  restMs(nowMs: number): number {
    return this.#many.size === 0 ? 0 : Math.max(0, this.#restsUntilMs - nowMs);
  }

  /** The owner that alone fills all flushes but the last one; undefined if there is none. */
  get #holder(): string | undefined {
    const [first, ...others] = this.#inFlight;
    const isLast = this.#inFlight.size === this.#options.maxInFlight - 1;
    return isLast && others.every(({ owner }) => owner === first?.owner) ? first?.owner : undefined;
  }

  /** Takes what is ready, within the limits. An entry that exceeds one of them is taken alone. */
  #take(queues: Queues<Entry>, maxItems: number, maxRows = Infinity): Entry[] {
    const taken: Entry[] = [];
    const holder = this.#holder;
    const maxSize = this.#options.size?.max ?? Infinity;
    let flushed = 0;
    let flushedRows = 0;
    while (queues.size > 0 && taken.length < maxItems) {
      const [owner, queue] = queues.entries().next().value as [string, Queue<Entry>];
      const entry = queue.entries[queue.head] as Entry;
      if (taken.length === 0 && owner === holder) {
        if (queues.size === 1) {
          break;
        }
        queues.delete(owner);
        queues.set(owner, queue);
        continue;
      }
      if (!this.#isReady(entry.item)) {
        this.#place(owner, queue);
        continue;
      }
      const size = this.#sizeOf(entry.item);
      const rows = this.#rowsOf(entry.item);
      const isFull = flushed + size > maxSize || flushedRows + rows > maxRows;
      if (taken.length > 0 && isFull) {
        break;
      }
      taken.push(entry);
      flushed += size;
      flushedRows += rows;
      queue.size -= size;
      queue.rows -= rows;
      this.#advance(queues, owner, queue);
    }
    this.#count -= taken.length;
    this.#size -= flushed;
    return taken;
  }

  /** Moves the head of a queue on. The owner's next turn comes after the others. */
  #advance(queues: Queues<Entry>, owner: string, queue: Queue<Entry>): void {
    queue.head += 1;
    if (queue.head === queue.entries.length) {
      queues.delete(owner);
    } else if (queues.size > 1) {
      queues.delete(owner);
      queues.set(owner, queue);
    }
    if (queue.head === COMPACTED) {
      queue.entries.splice(0, COMPACTED);
      queue.head = 0;
    }
  }
}
