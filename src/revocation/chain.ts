/**
 * One process's copy of the sequence of revocations, as far as the primary has authenticated it. Lines arrive over hubs
 * that are not trusted: they wait until an authenticated head covers them. Pure: no I/O.
 */
import type { FollowedRevocation } from "../database/repositories/tokens/revocations.ts";
import { isRevocationKind, REVOCATION_LIFE_MS } from "./kinds.ts";
import { nextHead, type SequenceState } from "./proof.ts";

/** Maximum number of lines that wait for an authenticated head. */
const WAITING_MAX = 20_000;
/** Number of past states that a late answer is compared with. */
const PAST_STATES = 1_024;
const LINE = /^(\d{1,15}):([a-z]+):([^:\n]{1,200}):(\d{1,17}):(\d{0,12})$/;

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
  if (seq === undefined || kind === undefined || target === undefined) {
    return undefined;
  }
  return {
    seq: Number(seq),
    kind,
    target,
    // A whole life from when it is learned: no clock of another machine is needed, and no denial ends too early.
    lifeMs: isRevocationKind(kind) ? REVOCATION_LIFE_MS[kind] : null,
    atMs: Number(atUs) / 1_000,
    issuedBefore: issuedBefore === "" ? null : Number(issuedBefore),
  };
}

interface Waiting {
  readonly line: string;
  readonly revocation: FollowedRevocation;
}

export class RevocationChain {
  #state: SequenceState | undefined;
  readonly #waiting = new Map<number, Waiting>();
  readonly #heads = new Map<number, string>();

  /** The last state up to which everything is known; undefined before the first snapshot. */
  get state(): SequenceState | undefined {
    return this.#state;
  }

  /** Begins at an authenticated snapshot. */
  begin(state: SequenceState): void {
    this.#heads.clear();
    this.#enter({ epoch: state.epoch, sequence: state.sequence, head: state.head });
    for (const sequence of this.#waiting.keys()) {
      if (sequence <= state.sequence) {
        this.#waiting.delete(sequence);
      }
    }
  }

  /** Returns the revocations of a snapshot's lines. */
  readAll(lines: string): FollowedRevocation[] {
    return lines.split("\n").flatMap((line) => readLine(line) ?? []);
  }

  /** Keeps a line until an authenticated head covers it. The first line of a number stays until it proves wrong. */
  offer(line: string): void {
    const revocation = readLine(line);
    if (revocation === undefined || this.#waiting.size >= WAITING_MAX) {
      return;
    }
    if (revocation.seq > (this.#state?.sequence ?? 0) && !this.#waiting.has(revocation.seq)) {
      this.#waiting.set(revocation.seq, { line, revocation });
    }
  }

  /**
   * Compares the copy with a state that the primary has authenticated, after taking the lines that lead there.
   *
   * @returns the standing, and the revocations that are authenticated now
   */
  attest(state: SequenceState): {
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
    return this.#advance(known, state);
  }

  #advance(known: SequenceState, state: SequenceState): ReturnType<RevocationChain["attest"]> {
    const taken: FollowedRevocation[] = [];
    const heads: string[] = [];
    let { head } = known;
    for (let sequence = known.sequence + 1; sequence <= state.sequence; sequence += 1) {
      const next = this.#waiting.get(sequence);
      if (next === undefined) {
        return { standing: "behind", taken: [] };
      }
      head = nextHead(head, next.line);
      heads.push(head);
      taken.push(next.revocation);
    }
    const authentic = head === state.head;
    for (const [index, { seq }] of taken.entries()) {
      this.#waiting.delete(seq);
      if (authentic) {
        this.#enter({ epoch: known.epoch, sequence: seq, head: heads[index] ?? "" });
      }
    }
    // Otherwise a line was forged, or the sequence is another one. Lines are requested again, then everything.
    return authentic ? { standing: "current", taken } : { standing: "behind", taken: [] };
  }

  #enter(state: SequenceState): void {
    this.#state = state;
    this.#heads.set(state.sequence, state.head);
    this.#heads.delete(state.sequence - PAST_STATES);
  }
}
