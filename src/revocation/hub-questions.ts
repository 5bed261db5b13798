/** A hub's questions to what is above it: one for the nonces of all processes behind it, as often as their leases need. */
import type { Logger } from "#observability/logger.ts";
import { afterLoopTime } from "#runtime/loop-time.ts";
import type { FollowerRegister } from "./follower-reports.ts";
import { type Path, TREE_NONCES_MAX, treeOf } from "./nonce-tree.ts";
import type { Proof, Snapshot } from "./proof.ts";
import type { Timer, Timers } from "#domain/clock.ts";

/** An answer from above: a proof for a root, and what is new. */
export interface HubAnswer {
  readonly proof: Proof;
  /** Trees above the root, from the lowest; none if the primary answered. */
  readonly trees: readonly Path[];
  readonly lines: readonly string[];
  /** The text of the verification keys, if it has changed. */
  readonly keys: string | undefined;
}

/** What a hub follows. */
export interface Upstream extends FollowerRegister {
  /** Asks for a proof over a nonce. Several questions may be under way. Rejects if no answer comes. */
  ask(
    nonce: Buffer,
    known: { readonly keysDigest: string | undefined; readonly after: number },
  ): Promise<HubAnswer>;
  /** Reads all live revocations. */
  snapshot(): Promise<Snapshot>;
  /** Reports that this hub has relayed all revocations up to a number. */
  relayed(sequence: number): void;
}

/** Shortest and longest pause between two questions, in milliseconds. Ten hubs ask the primary less than 500 times a second. */
const ASK_EVERY_MIN_MS = 22;
const ASK_EVERY_MAX_MS = 60;
/** Pause after a proof before the next question, in which the processes send their next nonces. */
const GATHER_MS = 3;
/** The same while no process waits for a proof. */
const IDLE_MS = 500;
const UNDER_WAY_MAX = 48;
/**
 * Loop time after which a question no longer counts as under way. No lease is as long, and too many that are lost in a
 * cut would hold up those after it. A late answer is still read.
 */
const UNANSWERED_MS = 500;
/** Nonces of one connection that may wait for a proof. A hub below sends one for all its processes. */
const NONCES_OF_ONE_MAX = 12;
/**
 * Questions that carry a nonce until it is answered. They go out over different connections, so a lost packet delays a
 * proof by one pause instead of a retransmission.
 */
const CARRIED_MAX = 3;

/** A nonce that waits for its proof. */
interface Nonce {
  readonly text: string;
  readonly bytes: Buffer;
  carried: number;
  answered: boolean;
}

export interface QuestionOptions<Asker> {
  readonly upstream: Pick<Upstream, "ask">;
  readonly leaseMs: number;
  readonly timers: Timers;
  readonly log: Logger;
  /** Returns what this hub has. */
  readonly known: () => { readonly keysDigest: string | undefined; readonly after: number };
  /** Called with each answer, before its proofs. @param after the number that was known at the question */
  readonly onAnswer: (answer: HubAnswer, after: number) => void;
  /** Called with the proof for an asker's nonce: its number, and the message. */
  readonly onProof: (asker: Asker, sequence: number, text: string) => void;
}

export class HubQuestions<Asker> {
  readonly #options: QuestionOptions<Asker>;
  /** Their nonces for the next questions. */
  readonly #askers = new Map<Asker, Nonce[]>();
  #underWay = 0;
  #askedAt = Number.NEGATIVE_INFINITY;
  #dueAt = Number.NEGATIVE_INFINITY;
  #rttMs = 0;
  #answeredAt = Number.NEGATIVE_INFINITY;
  #timer: Timer | undefined;
  /** Whether a process waits for a proof. */
  #waiting = false;
  #stopped = false;

  constructor(options: QuestionOptions<Asker>) {
    this.#options = options;
  }

  /** Age of the last answer, in milliseconds. */
  get ageMs(): number {
    return this.#options.timers.monotonic() - this.#answeredAt;
  }

  /** Smoothed round trip, in milliseconds. */
  get roundTripMs(): number {
    return this.#rttMs;
  }

  start(): void {
    this.#ask();
  }

  stop(): void {
    this.#options.timers.cancel(this.#timer);
    this.#stopped = true;
  }

  /** Takes a nonce, 32 bytes in base64url, for the next questions. */
  wait(asker: Asker, text: string): void {
    const nonces = this.#askers.get(asker) ?? [];
    if (nonces.length >= NONCES_OF_ONE_MAX) {
      nonces.shift();
    }
    nonces.push({ text, bytes: Buffer.from(text, "base64url"), carried: 0, answered: false });
    this.#askers.set(asker, nonces);
    if (!this.#waiting) {
      this.#waiting = true;
      this.#plan();
    }
  }

  forget(asker: Asker): void {
    this.#askers.delete(asker);
  }

  #every(): number {
    const spare = (this.#options.leaseMs - this.#rttMs) / 2 - ASK_EVERY_MIN_MS;
    return Math.min(Math.max(spare, ASK_EVERY_MIN_MS), ASK_EVERY_MAX_MS);
  }

  /**
   * Plans the next question: soon after a proof, in which the processes send their next nonces; otherwise at the pause
   * between questions; seldom while nobody waits.
   */
  #plan(): void {
    this.#options.timers.cancel(this.#timer);
    if (this.#stopped) {
      return;
    }
    const now = this.#options.timers.monotonic();
    const pauseEnds = this.#askedAt + this.#every();
    const wanted = this.#waiting ? Math.min(this.#dueAt, pauseEnds + GATHER_MS) : this.#askedAt + IDLE_MS;
    this.#timer = this.#options.timers.after(Math.max(0, Math.ceil(wanted - now)), () => this.#ask());
  }

  /**
   * Returns the nonces of the next question: the latest of each process, then the others, so that no process crowds out
   * others. Processes for which there is no place come first in the next one.
   */
  #take(): readonly { readonly asker: Asker; readonly nonce: Nonce }[] {
    const taken: { asker: Asker; nonce: Nonce }[] = [];
    let deepest = 0;
    for (const [asker, nonces] of this.#askers) {
      const left = nonces.filter(({ answered, carried }) => !answered && carried < CARRIED_MAX);
      this.#askers.set(asker, left);
      deepest = Math.max(deepest, left.length);
    }
    for (let depth = 1; depth <= deepest && taken.length < TREE_NONCES_MAX; depth += 1) {
      for (const [asker, nonces] of this.#askers) {
        const nonce = nonces.at(-depth);
        if (nonce !== undefined && taken.length < TREE_NONCES_MAX) {
          nonce.carried += 1;
          taken.push({ asker, nonce });
        }
      }
    }
    if (taken.length === TREE_NONCES_MAX) {
      for (const { asker } of taken) {
        const nonces = this.#askers.get(asker) ?? [];
        this.#askers.delete(asker);
        this.#askers.set(asker, nonces);
      }
    }
    return taken;
  }

  #ask(): void {
    const { timers, upstream, log, known, onAnswer, onProof } = this.#options;
    this.#dueAt = Number.POSITIVE_INFINITY;
    this.#askedAt = timers.monotonic();
    if (this.#underWay >= UNDER_WAY_MAX) {
      this.#plan();
      return;
    }
    const askedAt = this.#askedAt;
    this.#waiting = false;
    const asked = this.#take();
    const { keysDigest, after } = known();
    const { root, paths } = treeOf(asked.map(({ nonce }) => nonce.bytes));
    this.#underWay += 1;
    let isCounted = true;
    const cancel = afterLoopTime(this.#options.timers, UNANSWERED_MS, () => {
      this.#underWay -= 1;
      isCounted = false;
    });
    upstream
      .ask(root, { keysDigest, after })
      .then((answer) => {
        this.#answeredAt = timers.monotonic();
        const rtt = this.#answeredAt - askedAt;
        this.#rttMs = this.#rttMs === 0 ? rtt : this.#rttMs + (rtt - this.#rttMs) / 8;
        onAnswer(answer, after);
        const proof = JSON.stringify({ type: "proof", ...answer.proof }).slice(0, -1);
        const above = answer.trees.map((path) => `,${JSON.stringify(path)}`).join("");
        for (const [index, { asker, nonce }] of asked.entries()) {
          if (nonce.answered) {
            continue;
          }
          nonce.answered = true;
          const path = JSON.stringify(paths[index] ?? []);
          const trees = `[${path}${above}]`;
          onProof(asker, answer.proof.sequence, `${proof},"nonce":"${nonce.text}","trees":${trees}}`);
        }
        this.#dueAt = Math.max(timers.monotonic() + GATHER_MS, this.#askedAt + this.#every() - GATHER_MS);
        this.#plan();
      })
      .catch((error: unknown) => {
        log.debug({ err: error }, "a question for a proof failed");
        // It has carried them nowhere.
        asked.forEach(({ nonce }) => (nonce.carried -= 1));
      })
      .finally(() => {
        cancel();
        this.#underWay -= isCounted ? 1 : 0;
      });
    this.#plan();
  }
}
