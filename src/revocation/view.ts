/** What one process knows of the revocations, and whether that is recent enough to admit tokens by. Pure: no I/O. */
import type { RevocationNews } from "../database/repositories/revocations.ts";
import { DenyList, type RevocableToken } from "./deny-list.ts";
import { isRevocationKind, REVOCATION_LIFE_MS } from "./kinds.ts";
import { Lease, type LeaseOptions, type Moment } from "./lease.ts";

export type Verdict = "admit" | "revoked" | "stale";

/** What was found in an answer of the database. */
export type Heard =
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

export class RevocationView {
  readonly #denied = new DenyList();
  readonly #lease: Lease;
  readonly #options: LeaseOptions;
  #sequence = 0;
  #epoch: string | undefined;

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.#lease = new Lease(options);
  }

  /** The number up to which all revocations are known. */
  get sequence(): number {
    return this.#sequence;
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
  learn({ after, known, sent }: Question, news: RevocationNews): Heard {
    if (news.standby) {
      return "standby";
    }
    for (const { kind, target, lifeMs } of news.revocations) {
      this.#deny(kind, target, lifeMs);
    }
    const whole = after === 0;
    const other = known.epoch !== undefined && (news.epoch !== known.epoch || news.seq < known.sequence);
    if (!whole && (other || news.epoch !== this.#epoch)) {
      this.#lease.drop();
      return "restored";
    }
    // Answers over two connections come in any order; after a restored database the numbers start lower again.
    this.#sequence = whole ? news.seq : Math.max(this.#sequence, news.seq);
    this.#epoch = news.epoch;
    this.#lease.renew(sent);
    return other ? "replaced" : "current";
  }

  /**
   * Takes in a notification `seq:kind:target`. It makes a denial quick and proves nothing: any login of the database can
   * notify, and some notifications are lost. What is complete, the answers say.
   */
  hear(payload: string): void {
    const [, kind = "", target = ""] = payload.split(":");
    if (isRevocationKind(kind)) {
      this.#deny(kind, target, REVOCATION_LIFE_MS[kind]);
    }
  }

  /** Forgets entries whose tokens are all expired. */
  prune(): void {
    this.#denied.prune(this.#options.monotonic());
  }

  #deny(kind: string, target: string, lifeMs: number | null): void {
    if (isRevocationKind(kind)) {
      this.#denied.add(kind, target, lifeMs === null ? Infinity : this.#options.monotonic() + lifeMs);
    }
  }
}
