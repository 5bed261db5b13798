/** One process's knowledge of the revocations, and whether it is recent enough to admit tokens. Pure: no I/O. */
import type {
  FollowedRevocation,
  RevocationNews,
} from "#database/repositories/tokens/followed-revocations.ts";
import { DenyList, type RevocableToken } from "./deny-list.ts";
import { isRevocationKind, POLICY_CHANGE, REVOCATION_LIFE_MS } from "./kinds.ts";
import type { LearnedClock } from "#domain/clock.ts";
import { Lease, type LeaseOptions, type Moment } from "./lease.ts";

/** Longest wait for current knowledge, in milliseconds. If all answers come too late, this process is unusable. */
const RENEWAL_MOST_MS = 5_000;

export type Verdict = "admit" | "revoked" | "stale";

/** The meaning of an answer from the database. */
export type NewsResult =
  /** Everything is known now. */
  | "current"
  /** The database is not the one followed so far. Everything must be read again. */
  | "restored"
  /** Everything is known now, but from a database other than the one followed so far. */
  | "replaced"
  /** The database is a standby, whose answers prove nothing. */
  | "standby";

/** A question for new revocations, as of when it was sent. */
export interface Question {
  readonly after: number;
  /** The knowledge at that time. A later answer of the same database never covers less. */
  readonly known: { readonly sequence: number; readonly epoch: string | undefined };
  readonly sent: Moment;
}

export interface ViewOptions extends LeaseOptions {
  /**
   * The time of the database whose revocations are followed, by which tokens must be checked, too. Each answer brings it
   * before it renews the lease, so no token is admitted by an older time.
   */
  readonly time: LearnedClock;
  /** Called before a change of a tenant's policy counts as applied. Cached policies of the tenant are then invalid. */
  readonly onPolicyChange?: ((tenantId: string) => void) | undefined;
}

/** Revocations that are not authenticated yet. As compact as the view itself, because there may be a million. */
export class StagedRevocations {
  readonly denied = new DenyList();
  /** In order, because a later one may lift an earlier one. */
  readonly tenants: FollowedRevocation[] = [];

  get size(): number {
    return this.denied.size + this.tenants.length;
  }

  add(revocation: FollowedRevocation): void {
    const { kind, target, endsAtMs } = revocation;
    if (kind === "tenant") {
      this.tenants.push(revocation);
    } else if (isRevocationKind(kind)) {
      this.denied.add(kind, target, endsAtMs ?? Infinity);
    }
  }
}

/** Longer than a denial, in milliseconds. */
const REMEMBERED_MS = 1_800_000;

/**
 * The earliest that the time can be, by what it has been in the last half hour or hour. If the clock goes ahead and comes
 * back, denials of what is valid again must still be there.
 */
class EarliestTime {
  readonly #options: Pick<ViewOptions, "time" | "timers">;
  /** Least distance to the monotonic clock, in this half hour and the one before. */
  #least = Infinity;
  #leastBefore = Infinity;
  #begunAt = Number.NEGATIVE_INFINITY;

  constructor(options: Pick<ViewOptions, "time" | "timers">) {
    this.#options = options;
  }

  /** Returns Unix milliseconds. */
  now(): number {
    const { time, timers } = this.#options;
    const now = timers.monotonic();
    if (now - this.#begunAt >= REMEMBERED_MS) {
      [this.#leastBefore, this.#least, this.#begunAt] = [this.#least, Infinity, now];
    }
    this.#least = Math.min(this.#least, time.now() - now);
    return now + Math.min(this.#least, this.#leastBefore);
  }
}

export class RevocationView {
  readonly #denied = new DenyList();
  readonly #lease: Lease;
  readonly #options: ViewOptions;
  readonly #earliest: EarliestTime;
  #sequence = 0;
  #applied = 0;
  #epoch: string | undefined;
  #usedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: ViewOptions) {
    this.#options = options;
    this.#lease = new Lease(options);
    this.#earliest = new EarliestTime(options);
  }

  /** The sequence number up to which all revocations are known. */
  get sequence(): number {
    return this.#sequence;
  }

  /** The sequence number up to which all revocations are applied. Notifications count if they arrive in order. */
  get applied(): number {
    return this.#applied;
  }

  /** Number of denied targets. */
  get size(): number {
    return this.#denied.size;
  }

  /** Age of the last complete knowledge, in milliseconds. */
  get ageMs(): number {
    return this.#lease.ageMs();
  }

  /** Whether tokens can be admitted. */
  get current(): boolean {
    return this.#holds();
  }

  /**
   * Waits until tokens can be admitted.
   *
   * @param next resolves at the next answer; with false if none comes
   * @returns false if the knowledge is still too old
   */
  async renewedBy(next: () => Promise<boolean>): Promise<boolean> {
    const giveUpAt = this.#options.timers.monotonic() + RENEWAL_MOST_MS;
    while (!this.current) {
      if (!(await next()) || this.#options.timers.monotonic() > giveUpAt) {
        return this.current;
      }
    }
    return true;
  }

  /** How long nobody has asked whether tokens can be admitted, in milliseconds. */
  get unusedMs(): number {
    return this.#options.timers.monotonic() - this.#usedAtMs;
  }

  /** Decides on a token. This is the hot path. */
  verdict(token: RevocableToken): Verdict {
    if (this.#denied.denies(token)) {
      return "revoked";
    }
    return this.#holds() ? "admit" : "stale";
  }

  /** Returns the second of Unix time from which such a token can be issued: 0 for now, infinity for never. */
  issuableFrom(token: RevocableToken): number {
    return this.#denied.issuableFrom(token);
  }

  /** Whether a certificate is revoked, by its `x5t#S256`. */
  deniesCertificate(thumbprint: string): boolean {
    return this.#denied.deniesCertificate(thumbprint);
  }

  #holds(): boolean {
    this.#usedAtMs = this.#options.timers.monotonic();
    return this.#lease.holds();
  }

  /** Creates a question for new revocations, or for `everything` if the database may have changed. */
  ask(everything = false): Question {
    return {
      after: everything ? 0 : this.#sequence,
      known: { sequence: this.#sequence, epoch: this.#epoch },
      sent: this.#lease.moment(),
    };
  }

  /**
   * Takes the database's time, in Unix milliseconds, of an answer to a question of then.
   *
   * @returns false if a later answer has come before
   */
  applyTime(nowMs: number, { monotonic: askedAt }: Moment): boolean {
    const counts = this.#options.time.learn(nowMs, askedAt);
    // Noted before any token is admitted by it.
    this.#earliest.now();
    return counts;
  }

  /** Whether an answer has brought the time. */
  get knowsTime(): boolean {
    return this.#options.time.isKnown;
  }

  /** Applies an answer. Entries are only added: a database that lost a revocation does not lift it. */
  applyAnswer({ after, known, sent }: Question, news: RevocationNews): NewsResult {
    if (news.standby) {
      return "standby";
    }
    this.applyPartial(news.revocations);
    const whole = after === 0;
    const other = known.epoch !== undefined && (news.epoch !== known.epoch || news.seq < known.sequence);
    if (!whole && (other || news.epoch !== this.#epoch)) {
      this.#lease.drop();
      return "restored";
    }
    // Answers over two connections arrive in any order. A restored database may start with lower numbers.
    this.#sequence = whole ? news.seq : Math.max(this.#sequence, news.seq);
    this.#applied = whole ? this.#sequence : Math.max(this.#applied, this.#sequence);
    this.#epoch = news.epoch;
    this.applyTime(news.nowMs, sent);
    this.#lease.renew(sent);
    return other ? "replaced" : "current";
  }

  /**
   * Applies a notification `seq:kind:target`. It speeds up a denial but proves nothing: any database login can notify,
   * and notifications get lost. Only answers are complete.
   *
   * @returns false if an answer is needed to explain the notification
   */
  applyNotification(payload: string): boolean {
    const [number = "", kind = "", target = ""] = payload.split(":");
    const sequence = Number(number);
    if (sequence <= this.#sequence) {
      // An answer came first, and may already know of a later state.
      return true;
    }
    const { time } = this.#options;
    if (kind === POLICY_CHANGE) {
      this.#options.onPolicyChange?.(target);
    } else if (isRevocationKind(kind) && time.isKnown) {
      const lifeMs = REVOCATION_LIFE_MS[kind];
      this.#deny(kind, target, lifeMs === null ? null : time.now() + lifeMs);
    } else {
      return false;
    }
    if (sequence !== this.#applied + 1) {
      return false;
    }
    this.#applied = sequence;
    return true;
  }

  /**
   * Applies revocations that are known to be all between this view's state and another one. Does not renew the lease:
   * that they are recent is proved otherwise.
   */
  applyProven(
    { epoch, sequence }: { readonly epoch: string; readonly sequence: number },
    revocations: readonly FollowedRevocation[],
  ): void {
    this.applyPartial(revocations);
    this.#epoch = epoch;
    this.#sequence = Math.max(this.#sequence, sequence);
    this.#applied = this.#sequence;
  }

  /** Applies revocations that are a part of what is being read. That proves nothing. */
  applyPartial(revocations: readonly FollowedRevocation[]): void {
    for (const revocation of revocations) {
      this.#take(revocation);
    }
  }

  /** Begins to collect revocations that do not count before {@link commitSnapshot}. */
  stageSnapshot(): StagedRevocations {
    return new StagedRevocations();
  }

  /** Applies staged revocations, known to be all live ones of a state. Does not renew the lease. */
  commitSnapshot(
    { epoch, sequence }: { readonly epoch: string; readonly sequence: number },
    staged: StagedRevocations,
  ): void {
    this.#denied.absorb(staged.denied);
    this.applyPartial(staged.tenants);
    this.#epoch = epoch;
    this.#sequence = sequence;
    this.#applied = sequence;
  }

  /** Ends the lease. */
  drop(): void {
    this.#lease.drop();
  }

  /** Removes entries whose tokens have all expired, by the clock that tokens are checked by. */
  prune(): void {
    if (this.#options.time.isKnown) {
      this.#denied.prune(this.#earliest.now());
    }
  }

  #take({ kind, target, endsAtMs, atMs, issuedBefore }: FollowedRevocation): void {
    if (kind === POLICY_CHANGE) {
      this.#options.onPolicyChange?.(target);
    } else if (issuedBefore === null) {
      this.#deny(kind, target, endsAtMs, atMs);
    } else {
      this.#denied.liftTenant(target, atMs, issuedBefore);
    }
  }

  #deny(kind: string, target: string, endsAtMs: number | null, atMs?: number): void {
    if (isRevocationKind(kind)) {
      this.#denied.add(kind, target, endsAtMs ?? Infinity, atMs);
    }
  }
}
