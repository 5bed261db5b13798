/** What one process knows of the revocations, and whether that is recent enough to admit tokens by. Pure: no I/O. */
import type { FollowedRevocation, RevocationNews } from "../database/repositories/tokens/revocations.ts";
import { DenyList, type RevocableToken } from "./deny-list.ts";
import { isRevocationKind, POLICY_CHANGE, REVOCATION_LIFE_MS } from "./kinds.ts";
import { Lease, type LeaseOptions, type Moment } from "./lease.ts";

export type Verdict = "admit" | "revoked" | "stale";

/** What was found in an answer of the database. */
export type NewsResult =
  /** All of it is known now. */
  | "current"
  /** The database is not the one that was followed: everything must be read again. */
  | "restored"
  /** All of it is known now, out of a database that is not the one that was followed. */
  | "replaced"
  /** A standby, which proves nothing. */
  | "standby";

/** A question for news, as it was when it was sent. */
export interface Question {
  readonly after: number;
  /** What was known then: no later answer of the same database says less. */
  readonly known: { readonly sequence: number; readonly epoch: string | undefined };
  readonly sent: Moment;
}

export interface ViewOptions extends LeaseOptions {
  /** Called before a change of a tenant's policy counts as obeyed: what is known of that policy holds no longer. */
  readonly onPolicyChange?: ((tenantId: string) => void) | undefined;
}

export class RevocationView {
  readonly #denied = new DenyList();
  readonly #lease: Lease;
  readonly #options: ViewOptions;
  #sequence = 0;
  #applied = 0;
  #epoch: string | undefined;

  constructor(options: ViewOptions) {
    this.#options = options;
    this.#lease = new Lease(options);
  }

  /** The number up to which all revocations are known. */
  get sequence(): number {
    return this.#sequence;
  }

  /** The number up to which all revocations are obeyed: notifications, which come before the answers, count in their order. */
  get applied(): number {
    return this.#applied;
  }

  /** How many targets are denied. */
  get size(): number {
    return this.#denied.size;
  }

  /** Milliseconds since what is known was surely complete. */
  get ageMs(): number {
    return this.#lease.ageMs();
  }

  /** Whether tokens can be admitted. */
  get current(): boolean {
    return this.#lease.holds();
  }

  /** Whether a token may be admitted: the hot path. */
  verdict(token: RevocableToken): Verdict {
    if (this.#denied.denies(token)) {
      return "revoked";
    }
    return this.#lease.holds() ? "admit" : "stale";
  }

  /** The second of Unix time from which on such a token can be issued: 0 for now, infinite for never. */
  issuableFrom(token: RevocableToken): number {
    return this.#denied.issuableFrom(token);
  }

  /** Whether a certificate is revoked, by its `x5t#S256`. */
  deniesCertificate(thumbprint: string): boolean {
    return this.#denied.deniesCertificate(thumbprint);
  }

  /** A question for what is not known yet; `everything` after a loss of trust. */
  ask(everything = false): Question {
    return {
      after: everything ? 0 : this.#sequence,
      known: { sequence: this.#sequence, epoch: this.#epoch },
      sent: this.#lease.moment(),
    };
  }

  /** Takes in an answer. Entries are only ever added: a database that forgot a revocation does not undo it. */
  learn({ after, known, sent }: Question, news: RevocationNews): NewsResult {
    if (news.standby) {
      return "standby";
    }
    for (const revocation of news.revocations) {
      this.#take(revocation);
    }
    const whole = after === 0;
    const other = known.epoch !== undefined && (news.epoch !== known.epoch || news.seq < known.sequence);
    if (!whole && (other || news.epoch !== this.#epoch)) {
      this.#lease.drop();
      return "restored";
    }
    // Answers over two connections come in any order; after a restored database the numbers start lower again.
    this.#sequence = whole ? news.seq : Math.max(this.#sequence, news.seq);
    this.#applied = whole ? this.#sequence : Math.max(this.#applied, this.#sequence);
    this.#epoch = news.epoch;
    this.#lease.renew(sent);
    return other ? "replaced" : "current";
  }

  /**
   * Takes in a notification `seq:kind:target`. It makes a denial quick and proves nothing: any login of the database can
   * notify, and some notifications are lost. What is complete, the answers say.
   *
   * @returns false when it tells of something that an answer has to explain
   */
  hear(payload: string): boolean {
    const [number = "", kind = "", target = ""] = payload.split(":");
    const sequence = Number(number);
    if (sequence <= this.#sequence) {
      // An answer was quicker, and may have told what became of it.
      return true;
    }
    if (kind === POLICY_CHANGE) {
      this.#options.onPolicyChange?.(target);
    } else if (isRevocationKind(kind)) {
      this.#deny(kind, target, REVOCATION_LIFE_MS[kind]);
    } else {
      return false;
    }
    if (sequence !== this.#applied + 1) {
      return false;
    }
    this.#applied = sequence;
    return true;
  }

  /** Forgets entries whose tokens are all expired. */
  prune(): void {
    this.#denied.prune(this.#options.monotonic());
  }

  #take({ kind, target, lifeMs, atMs, issuedBefore }: FollowedRevocation): void {
    if (kind === POLICY_CHANGE) {
      this.#options.onPolicyChange?.(target);
    } else if (issuedBefore === null) {
      this.#deny(kind, target, lifeMs, atMs);
    } else {
      this.#denied.liftTenant(target, atMs, issuedBefore);
    }
  }

  #deny(kind: string, target: string, lifeMs: number | null, atMs?: number): void {
    if (isRevocationKind(kind)) {
      const until = lifeMs === null ? Infinity : this.#options.monotonic() + lifeMs;
      this.#denied.add(kind, target, until, atMs);
    }
  }
}
