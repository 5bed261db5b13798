/**
 * One process's copy of the sequence of revocations, as far as the primary has authenticated it. Lines arrive over hubs
 * that are not trusted: they wait until an authenticated head covers them. Pure: no I/O.
 */
import type { FollowedRevocation } from "#database/repositories/tokens/followed-revocations.ts";
import { isRevocationKind, REVOCATION_LIFE_MS } from "./kinds.ts";
import { nextHead, type SequenceState } from "./proof.ts";

/**
 * Maximum number of lines of a hub that wait for an authenticated head. A process that reads a snapshot gets all lines
 * since it was made.
 */
const WAITING_MAX = 65_536;
/** Number of past states that a late answer is compared with. */
const PAST_STATES = 1_024;
const LINE = /^(\d{1,15}):([a-z]+):([^:\n]{1,200}):(\d{1,17}):(\d{0,12})$/;

const CERTIFICATE = ":cert:";
const THUMBPRINT = /^[0-9a-f]{64}$/;
const THUMBPRINT_LENGTH = 64;

/** The meaning of an authenticated state for this copy. */
export type Standing =
  /** All revocations up to the state are known. */
  | "current"
  /** Lines are missing. */
  | "behind"
  /** The state is not of this sequence: the database was restored or replaced. */
  | "other";

/** Returns the sequence number and the revocation of a line. Undefined if malformed. */
export function readLine(line: string): FollowedRevocation | undefined {
  const [, seq, kind, target, atUs, issuedBefore] = LINE.exec(line) ?? [];
  const atMs = Number(atUs) / 1_000;
  const lifeMs = kind !== undefined && isRevocationKind(kind) ? REVOCATION_LIFE_MS[kind] : null;
  if (seq === undefined || kind === undefined || target === undefined) {
    return undefined;
  }
  return {
    seq: Number(seq),
    kind,
    target,
    endsAtMs: lifeMs === null ? null : atMs + lifeMs,
    atMs,
    issuedBefore: issuedBefore === "" ? null : Number(issuedBefore),
  };
}

/** Returns the revoked certificates in lines. The text may have a million, so it is searched, not split. */
export function certificatesIn(lines: string): string[] {
  const found: string[] = [];
  for (let at = lines.indexOf(CERTIFICATE); at >= 0; at = lines.indexOf(CERTIFICATE, at + 1)) {
    const start = at + CERTIFICATE.length;
    const thumbprint = lines.slice(start, start + THUMBPRINT_LENGTH);
    if (THUMBPRINT.test(thumbprint)) {
      found.push(thumbprint);
    }
  }
  return found;
}

interface Waiting {
  readonly line: string;
  readonly revocation: FollowedRevocation;
}

/** Lines of one hub that no authenticated head covers yet. Each hub has its own, so that none can displace another's. */
export class WaitingLines {
  readonly #lines = new Map<number, Waiting>();
  #forgotten = 0;

  /** Keeps a line. If there are too many, the hub sent what it should not, and all are dropped. */
  offer(line: string): void {
    const revocation = readLine(line);
    if (revocation === undefined) {
      return;
    }
    if (this.#lines.size >= WAITING_MAX) {
      this.#lines.clear();
    }
    this.#lines.set(revocation.seq, { line, revocation });
  }

  /** Takes the line of a number out. */
  take(sequence: number): Waiting | undefined {
    const waiting = this.#lines.get(sequence);
    this.#lines.delete(sequence);
    return waiting;
  }

  /** Whether there is a line for each number after one, up to another. */
  covers(after: number, sequence: number): boolean {
    for (let next = after + 1; next <= sequence; next += 1) {
      if (!this.#lines.has(next)) {
        return false;
      }
    }
    return true;
  }

  /** Drops the lines up to a number. */
  forget(sequence: number): void {
    if (sequence === this.#forgotten) {
      return;
    }
    this.#forgotten = sequence;
    for (const known of this.#lines.keys()) {
      if (known <= sequence) {
        this.#lines.delete(known);
      }
    }
  }
}

export class RevocationChain {
  #state: SequenceState | undefined;
  #begun = 0;
  readonly #heads = new Map<number, string>();

  /** The last state up to which everything is known; undefined before the first snapshot. */
  get state(): SequenceState | undefined {
    return this.#state;
  }

  /** Number of snapshots at which it began. */
  get begun(): number {
    return this.#begun;
  }

  /** Begins at an authenticated snapshot. */
  begin(state: SequenceState): void {
    this.#begun += 1;
    this.#heads.clear();
    this.#enter({ epoch: state.epoch, sequence: state.sequence, head: state.head });
  }

  /**
   * Compares the copy with a state that the primary has authenticated, after taking the lines that lead there.
   *
   * @param waiting lines of the hub that brought the state
   * @returns the standing, and the revocations that are authenticated now
   */
  attest(
    state: SequenceState,
    waiting: WaitingLines,
  ): {
    readonly standing: Standing;
    readonly taken: readonly FollowedRevocation[];
  } {
    const known = this.#state;
    if (known === undefined) {
      return { standing: "behind", taken: [] };
    }
    if (state.epoch !== known.epoch) {
      return { standing: "other", taken: [] };
    }
    if (state.sequence <= known.sequence) {
      const head = this.#heads.get(state.sequence);
      // A state older than the copy remembers was answered long before. It proves nothing, but is no contradiction.
      return {
        standing: head === undefined ? "behind" : head === state.head ? "current" : "other",
        taken: [],
      };
    }
    return this.#advance(known, state, waiting);
  }

  #advance(
    known: SequenceState,
    state: SequenceState,
    waiting: WaitingLines,
  ): ReturnType<RevocationChain["attest"]> {
    if (!waiting.covers(known.sequence, state.sequence)) {
      return { standing: "behind", taken: [] };
    }
    const passed: SequenceState[] = [];
    const taken: FollowedRevocation[] = [];
    let { head } = known;
    for (let sequence = known.sequence + 1; sequence <= state.sequence; sequence += 1) {
      const next = waiting.take(sequence) as Waiting;
      head = nextHead(head, next.line);
      passed.push({ epoch: known.epoch, sequence, head });
      taken.push(next.revocation);
    }
    if (head !== state.head) {
      // A line was forged, or the sequence is another one. Lines are requested again, then everything.
      return { standing: "behind", taken: [] };
    }
    passed.forEach((each) => this.#enter(each));
    return { standing: "current", taken };
  }

  #enter(state: SequenceState): void {
    this.#state = state;
    this.#heads.set(state.sequence, state.head);
    this.#heads.delete(state.sequence - PAST_STATES);
  }
}
