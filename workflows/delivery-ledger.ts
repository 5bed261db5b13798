/**
 * State of the members of a `deliver` workflow: pure bookkeeping, without Temporal. The workflow asks what is due and
 * reports the results.
 */
import type { AttemptInput, AttemptResult, IndexedReservation, Member } from "#activities/types.ts";
import { ATTEMPT_MAX, shiftForLateness, togetherMs } from "#domain/retry-schedule.ts";
import type {
  DeadLetterInput,
  DeliverInput,
  DeliverResult,
  MemberProgress,
  MemberStatus,
} from "./messages.ts";

export type Phase = "RETRYING" | "DEAD_LETTERED" | "DONE";

interface Entry {
  readonly member: Member;
  attempts: number;
  phase: Phase;
  /** Time of the next attempt, or of the end of the dead-letter week, in Unix milliseconds. */
  dueMs: number;
  /** Whether an activity is working on the member. */
  busy: boolean;
  /** Reservation in a rate-limit queue: Unix milliseconds, and the limit per second. */
  reservation: readonly [atMs: number, rateLimit: number] | undefined;
  /** Whether its receiver requested a wait until it is due. */
  notEarlier: boolean;
  /** Last request for an attempt during another attempt, in Unix milliseconds. */
  askedMs: number;
  /** Whether an attempt was made because of it. */
  used: boolean;
  /** How the last attempt was answered. */
  last: string | undefined;
}

/** Members that are attempted together. */
export interface Wave {
  readonly entries: readonly number[];
  readonly input: AttemptInput;
  /** Whether the last attempt of each timed out. */
  readonly silent: boolean;
}

export interface Due {
  /** Unix milliseconds. */
  readonly atMs: number;
  /** 1 to 17; undefined for the end of a dead letter's week. */
  readonly attempt: number | undefined;
  /** How the last one was answered. */
  readonly last: string | undefined;
}

/** The answer of a receiver that said nothing in time. */
const TIMED_OUT = "timeout";

/** Maximum difference of the server's and the worker's clocks. */
const ASKED_SLACK_MS = 50;

/**
 * Rate-limited members go together only if their reservations are within this time, as reservations set the
 * endpoint's pace.
 */
const RESERVATIONS_TOGETHER_MS = 1_000;

function isAfter(askedMs: number, answeredMs: number): boolean {
  return askedMs + ASKED_SLACK_MS >= answeredMs;
}

/** Returns the state of dead letters as the input of a `deliver`. They need no offsets. */
export function fromLetters({ letters, done, ...rest }: DeadLetterInput): DeliverInput {
  return {
    ...rest,
    members: letters.map(([id, epoch]) => ({ id, epoch })),
    offsets_ms: [],
    progress: {
      anchor_ms: null,
      members: letters.map(([, , attempts, due_ms, last]) => ({
        attempts,
        phase: "DEAD_LETTERED",
        due_ms,
        ...(last === undefined ? {} : { last }),
      })),
      ...(done === undefined ? {} : { done }),
    },
  };
}

function answerTo({ answers = [] }: AttemptResult, member: number): string | undefined {
  return answers.find(([, ...indexes]) => indexes.length === 0 || indexes.includes(member))?.[0];
}

const NOTHING_DONE: DeliverResult = { delivered: 0, replayed: 0, cancelled: 0, moved: 0, expired: 0 };

export class DeliveryLedger {
  /** Whether members with a requested wait stay out of earlier waves; undefined before the first such member. */
  waits: boolean | undefined;
  readonly #offsets: readonly number[];
  readonly #deadLetterMs: number;
  readonly #mixed: boolean;
  readonly #entries: Entry[];
  readonly #done: { -readonly [Key in keyof DeliverResult]: number };
  #anchorMs: number | null;
  /** Last shift of the anchor by an outage of ours. Anything due before then is late because of the same outage. */
  #shiftedAtMs = 0;

  constructor(input: DeliverInput, nowMs: number) {
    this.#offsets = input.offsets_ms;
    this.#deadLetterMs = input.dead_letter_ms;
    this.#mixed = input.mixed === true;
    this.#anchorMs = input.progress?.anchor_ms ?? null;
    this.#done = { ...(input.progress?.done ?? NOTHING_DONE) };
    this.#entries = input.members.map((member, index) => {
      const progress = input.progress?.members[index];
      return {
        member,
        attempts: progress?.attempts ?? 0,
        phase: progress?.phase ?? "RETRYING",
        dueMs: progress?.due_ms ?? nowMs,
        busy: false,
        askedMs: 0,
        used: false,
        last: progress?.last,
        notEarlier: progress?.not_earlier === true,
        reservation: progress?.place,
      };
    });
  }

  /** Whether a receiver of any member requested a wait. */
  get askedToWait(): boolean {
    return this.#entries.some((entry) => entry.notEarlier);
  }

  get open(): number {
    return this.#entries.filter((entry) => entry.phase !== "DONE").length;
  }

  get result(): DeliverResult {
    return { ...this.#done };
  }

  /** Whether no attempt is left or in progress; dead letters may remain. */
  get onlyDeadLetters(): boolean {
    return this.#entries.every((entry) => entry.phase !== "RETRYING" && !entry.busy);
  }

  /** Number of dead letters. */
  get dead(): number {
    return this.#letters().length;
  }

  /** When the first dead letter expires, in Unix milliseconds; undefined without dead letters. */
  get firstExpiryMs(): number | undefined {
    const ends = this.#letters().map((entry) => entry.dueMs);
    return ends.length === 0 ? undefined : Math.min(...ends);
  }

  /** The next due time; undefined while all open members are busy. */
  get nextDue(): Due | undefined {
    let next: Entry | undefined;
    for (const entry of this.#entries) {
      if (entry.phase !== "DONE" && !entry.busy && (next === undefined || entry.dueMs < next.dueMs)) {
        next = entry;
      }
    }
    return next === undefined
      ? undefined
      : {
          atMs: next.dueMs,
          attempt: next.phase === "RETRYING" ? next.attempts + 1 : undefined,
          last: next.last,
        };
  }

  /** State of the least advanced open member, for the search attribute. */
  get state(): "QUEUED" | "RETRYING" | "DEAD_LETTERED" {
    const open = this.#entries.filter((entry) => entry.phase === "RETRYING");
    if (open.some((entry) => entry.attempts === 0)) {
      return "QUEUED";
    }
    return open.length > 0 ? "RETRYING" : "DEAD_LETTERED";
  }

  /** Takes the members due for an attempt, and those due shortly after; undefined if none are. */
  takeDueWave(nowMs: number): Wave | undefined {
    const due = this.#idle("RETRYING").filter((index) => this.#at(index).dueMs <= nowMs);
    const first = due.toSorted((a, b) => this.#at(a).dueMs - this.#at(b).dueMs)[0];
    if (first === undefined) {
      return undefined;
    }
    const { attempts, dueMs } = this.#at(first);
    const attempt = attempts + 1;
    const horizonMs = nowMs + togetherMs(this.#offsets, attempt);
    const entries = this.#idle("RETRYING").filter((index) => {
      const entry = this.#at(index);
      const latestMs = entry.reservation === undefined ? horizonMs : nowMs + RESERVATIONS_TOGETHER_MS;
      const waits = this.waits === true && entry.notEarlier;
      return entry.attempts === attempts && entry.dueMs <= (waits ? nowMs : latestMs);
    });
    return this.#wave(entries, attempt, attempt === 1 ? null : dueMs);
  }

  /** Takes the dead letters whose week has ended. */
  takeExpiring(nowMs: number): number[] {
    const entries = this.#idle("DEAD_LETTERED").filter((index) => this.#at(index).dueMs <= nowMs);
    this.#setBusy(entries, true);
    return entries;
  }

  /** The dead letters that may not stay: beside members that are retried, or of several endpoints. */
  get strayLetters(): number[] {
    return this.#mixed || !this.onlyDeadLetters ? this.#idle("DEAD_LETTERED") : [];
  }

  takeStrayLetters(): number[] {
    const entries = this.strayLetters;
    this.#setBusy(entries, true);
    return entries;
  }

  /** Ends the work on members without an outcome. */
  free(entries: readonly number[]): void {
    this.#setBusy(entries, false);
  }

  /** Returns the members of a wave without a response, for `settle`. */
  unsettled(wave: Wave, result: AttemptResult): Wave | undefined {
    const entries = (result.unsettled ?? []).map((index) => this.#entryIndex(wave, index));
    return entries.length === 0 ? undefined : this.#wave(entries, wave.input.attempt, wave.input.due_ms);
  }

  /**
   * Whether {@link apply} depends on `exactly`: an attempt was requested after a member's answer but long before the wave
   * ended, because another member or the database kept it; or a request has had its attempt.
   */
  mustAskExactly(wave: Wave, { failed = [], ended_at: endedMs }: AttemptResult): boolean {
    return failed.some(([index, , beforeMs]) => {
      const { askedMs, used } = this.#at(this.#entryIndex(wave, index));
      return isAfter(askedMs, endedMs) ? used : !used && isAfter(askedMs, endedMs - (beforeMs ?? 0));
    });
  }

  /**
   * Records the result of a wave.
   *
   * @param exactly whether a request for an attempt counts from the member's answer, not from the wave's end, and once
   */
  apply(wave: Wave, result: AttemptResult, exactly = false): void {
    const { attempt, due_ms: dueMs } = wave.input;
    // If all members still wait for their reservations, the cycle has not begun.
    if (result.places === undefined || result.places.length < wave.entries.length) {
      this.#anchorMs ??= result.started_at;
    }
    if (dueMs !== null) {
      this.#shift(attempt, dueMs, result.started_at);
    }
    const unsettled = new Set(result.unsettled);
    const failed = new Map(result.failed?.map(([index, ...delays]) => [index, delays]));
    const dead = new Set(result.dead);
    const moved = new Set(result.moved);
    const notEarlier = new Set(result.not_earlier);
    const postponed = new Map(result.postponed);
    const places = new Map(result.places?.map(([index, ...place]) => [index, place]));
    wave.entries.forEach((entryIndex, index) => {
      const entry = this.#at(entryIndex);
      if (unsettled.has(index) || entry.phase === "DONE") {
        return;
      }
      entry.busy = false;
      entry.reservation = places.get(index);
      entry.notEarlier = notEarlier.has(index);
      const postponedMs = postponed.get(index);
      if (postponedMs !== undefined) {
        entry.dueMs = result.ended_at + postponedMs;
        return;
      }
      const answer = answerTo(result, index);
      // A dead letter without an answer was not attempted: its endpoint is disabled.
      if (answer !== undefined || !dead.has(index) || attempt === ATTEMPT_MAX) {
        entry.attempts = attempt;
        entry.last = answer;
      }
      const delays = failed.get(index);
      if (delays !== undefined) {
        this.#retry(entry, delays, result.ended_at, exactly);
      } else if (dead.has(index)) {
        entry.phase = "DEAD_LETTERED";
        entry.dueMs = result.ended_at + this.#deadLetterMs;
      } else {
        this.#finish(entry, moved.has(index) ? "moved" : "delivered");
      }
    });
  }

  /** Postpones members whose activity failed. The attempt does not count. */
  postpone(entries: readonly number[], dueMs: number): void {
    this.#setBusy(entries, false);
    for (const index of entries) {
      this.#at(index).dueMs = dueMs;
    }
  }

  /** Whether the members belong to several endpoints. */
  get mixed(): boolean {
    return this.#mixed;
  }

  /** Returns the members with the given delivery ids, undefined for unknown ids; or all open members without ids. */
  find(
    deliveryIds: readonly string[] | undefined,
  ): readonly (readonly [index: number | undefined, id: string])[] {
    const open = this.#entries.flatMap(({ phase, member }, index) =>
      phase === "DONE" ? [] : [[index, member.id] as const],
    );
    if (deliveryIds === undefined) {
      return open;
    }
    const byId = new Map(this.#entries.map(({ member }, index) => [member.id, index]));
    return [...new Set(deliveryIds)].map((id) => [byId.get(id), id] as const);
  }

  /** Returns the open members among those of {@link find}. */
  named(deliveryIds: readonly string[] | undefined): number[] {
    return this.find(deliveryIds).flatMap(([index]) =>
      index === undefined || this.#at(index).phase === "DONE" ? [] : [index],
    );
  }

  phaseOf(index: number): Phase {
    return this.#at(index).phase;
  }

  /** Makes the next attempt due now. A member with an attempt in progress only records the request. */
  attemptNow(entries: readonly number[], nowMs: number): void {
    for (const entry of entries.map((index) => this.#at(index))) {
      if (entry.phase === "RETRYING" && entry.busy) {
        entry.askedMs = nowMs;
        entry.used = false;
      } else if (entry.phase === "RETRYING") {
        entry.dueMs = Math.min(entry.dueMs, nowMs);
      }
    }
  }

  members(entries: readonly number[]): Member[] {
    return entries.map((index) => this.#at(index).member);
  }

  /** Closes members, so that they are not attempted again here. */
  close(entries: readonly number[], outcome: keyof DeliverResult): void {
    for (const index of entries) {
      const entry = this.#at(index);
      if (entry.phase !== "DONE") {
        this.#finish(entry, outcome);
      }
    }
  }

  status(): MemberStatus[] {
    return this.#entries.map((entry) => ({
      delivery_id: entry.member.id,
      state: entry.phase === "RETRYING" && entry.attempts === 0 ? "QUEUED" : entry.phase,
      attempts: entry.attempts,
      last_answer: entry.last ?? null,
      next_attempt_at: entry.phase === "RETRYING" && !entry.busy ? new Date(entry.dueMs).toISOString() : null,
      expires_at: entry.phase === "DEAD_LETTERED" ? new Date(entry.dueMs).toISOString() : null,
    }));
  }

  /** Returns the input of the next run. */
  successor(): DeliverInput {
    const open = this.#entries.filter((entry) => entry.phase !== "DONE");
    const progress = open.map((entry): MemberProgress => ({
      attempts: entry.attempts,
      phase: entry.phase === "DEAD_LETTERED" ? "DEAD_LETTERED" : "RETRYING",
      due_ms: entry.dueMs,
      ...(entry.reservation === undefined ? {} : { place: entry.reservation }),
      ...(entry.notEarlier ? { not_earlier: true } : {}),
      ...(entry.last === undefined ? {} : { last: entry.last }),
    }));
    return {
      v: 1,
      members: open.map((entry) => entry.member),
      offsets_ms: this.#offsets,
      dead_letter_ms: this.#deadLetterMs,
      ...(this.#mixed ? { mixed: true } : {}),
      progress: { anchor_ms: this.#anchorMs, members: progress, done: this.result },
    };
  }

  /** Returns the input of the `deadLetter` that continues a run with dead letters only. */
  letters(): DeadLetterInput {
    return {
      v: 1,
      letters: this.#letters().map(({ member, attempts, dueMs, last }) =>
        last === undefined
          ? [member.id, member.epoch, attempts, dueMs]
          : [member.id, member.epoch, attempts, dueMs, last],
      ),
      dead_letter_ms: this.#deadLetterMs,
      done: this.result,
    };
  }

  #letters(): Entry[] {
    return this.#entries.filter(({ phase }) => phase === "DEAD_LETTERED");
  }

  #wave(entries: readonly number[], attempt: number, dueMs: number | null): Wave {
    this.#setBusy(entries, true);
    const places = entries.flatMap((entry, index): IndexedReservation[] => {
      const { reservation } = this.#at(entry);
      return reservation === undefined ? [] : [[index, ...reservation]];
    });
    return {
      entries,
      silent: entries.every((entry) => this.#at(entry).last === TIMED_OUT),
      input: {
        members: this.members(entries),
        attempt: Math.min(attempt, ATTEMPT_MAX),
        offsets_ms: this.#offsets,
        anchor_ms: this.#anchorMs,
        due_ms: dueMs === null ? null : Math.max(dueMs, this.#shiftedAtMs),
        dead_letter_ms: this.#deadLetterMs,
        ...(this.#mixed && attempt === 1 ? { part: true } : {}),
        ...(places.length > 0 ? { places } : {}),
      },
    };
  }

  #shift(attempt: number, dueMs: number, startedAtMs: number): void {
    const lateMs = startedAtMs - Math.max(dueMs, this.#shiftedAtMs);
    const shiftMs = shiftForLateness(this.#offsets, attempt, lateMs);
    if (shiftMs > 0) {
      this.#anchorMs = (this.#anchorMs ?? startedAtMs) + shiftMs;
      this.#shiftedAtMs = startedAtMs;
    }
  }

  #idle(phase: Phase): number[] {
    return this.#entries.flatMap((entry, index) => (entry.phase === phase && !entry.busy ? [index] : []));
  }

  #setBusy(entries: readonly number[], busy: boolean): void {
    for (const index of entries) {
      this.#at(index).busy = busy;
    }
  }

  /** If a request came after the attempt ended, but before its result arrived, it means the next attempt. */
  #retry(
    entry: Entry,
    [delayMs = 0, beforeMs = 0]: readonly (number | undefined)[],
    endedMs: number,
    exactly: boolean,
  ): void {
    const asked = isAfter(entry.askedMs, endedMs - (exactly ? beforeMs : 0)) && !(exactly && entry.used);
    entry.used ||= asked;
    entry.dueMs = asked ? endedMs : endedMs + delayMs;
  }

  #finish(entry: Entry, outcome: keyof DeliverResult): void {
    entry.phase = "DONE";
    entry.busy = false;
    this.#done[outcome] += 1;
  }

  #entryIndex(wave: Wave, index: number): number {
    const entryIndex = wave.entries[index];
    if (entryIndex === undefined) {
      throw new RangeError(`the wave has no member ${index}`);
    }
    return entryIndex;
  }

  #at(index: number): Entry {
    const entry = this.#entries[index];
    if (entry === undefined) {
      throw new RangeError(`there is no member ${index}`);
    }
    return entry;
  }
}
