/**
 * A hub: relays the primary's proofs to the processes of a region, so that the primary answers one question for all of
 * them (decision 33). It holds no key and decides nothing. It follows the primary or another hub.
 */
import type { Logger } from "../observability/logger.ts";
import { type HubConnection, readRequest, type Reply } from "./hub-messages.ts";
import { type FollowerRegister, FollowerReports, type Reporting } from "./follower-reports.ts";
import type { Monotonic } from "./lease.ts";
import { certificatesIn } from "./chain.ts";
import { HubLines, SnapshotChunks } from "./hub-lines.ts";
import { type Path, TREE_NONCES_MAX, treeOf } from "./nonce-tree.ts";
import type { Attestation, Proof, SequenceState, Snapshot } from "./proof.ts";

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

export interface HubOptions {
  readonly upstream: Upstream;
  readonly leaseMs: number;
  readonly monotonic: Monotonic;
  readonly log: Logger;
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
 * Chunks of a snapshot that are under way to one process: 1 MiB, so that proofs do not wait long behind them, and a
 * round trip of 180 ms still carries 46 Mbit/s.
 */
const CHUNKS_AHEAD = 4;
/** Nonces of one connection that may wait for the next question. A hub below sends one for all its processes. */
const NONCES_OF_ONE_MAX = 4;
/** Connections of one hub. */
const CHILDREN_MAX = 2_000;
/** Silence after which a connection counts as dead, in milliseconds. A process asks at least every 200 ms. */
const SILENT_MS = 10_000;
/** A process that reads so slowly that this many bytes wait is disconnected. */
const BACKLOG_MAX = 67_108_864;

/**
 * Questions that carry a nonce until it is answered. They go out over different connections, so a lost packet delays a
 * proof by one pause instead of a retransmission.
 */
const CARRIED_MAX = 3;

/** Pause before the revoked certificates are read again after a failure. */
const READ_AGAIN_MS = 5_000;
const REVOKED = "a connection to this hub was refused: its certificate is revoked";
/** A nonce that waits for its proof. */
interface Nonce {
  readonly text: string;
  readonly bytes: Buffer;
  carried: number;
  answered: boolean;
}

/** A process or hub behind this one. */
interface Child extends Reporting {
  readonly connection: HubConnection;
  /** Nonces for the next questions. */
  nonces: Nonce[];
  /** The last line sent. */
  sent: number;
  /** Whether a snapshot is being read for it. */
  awaitsSnapshot: boolean;
  /** The snapshot that it reads. */
  snapshot: SnapshotChunks | undefined;
  /** When its last message came. */
  heardAt: number;
}

export class Hub {
  readonly #options: HubOptions;
  readonly #children = new Set<Child>();
  readonly #lines = new HubLines();
  readonly #followers: FollowerReports;
  /** SHA-256 of revoked certificates, in hexadecimal. */
  readonly #revoked = new Set<string>();
  #knowsRevoked = false;
  /** When they are read, unless they are known. */
  #readsRevokedAt = Number.NEGATIVE_INFINITY;
  #snapshot: Promise<Snapshot> | undefined;
  #epoch: string | undefined;
  #sequence = 0;
  #keys: { readonly text: string; readonly digest: string } | undefined;
  #underWay = 0;
  #askedAt = Number.NEGATIVE_INFINITY;
  #dueAt = Number.NEGATIVE_INFINITY;
  #rttMs = 0;
  #answeredAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  /** Whether a process waits for a proof. */
  #waiting = false;
  #stopped = false;
  #sweep: NodeJS.Timeout | undefined;

  constructor(options: HubOptions) {
    this.#options = options;
    this.#followers = new FollowerReports(options);
  }

  /** Number of the last revocation that was relayed. */
  get sequence(): number {
    return this.#sequence;
  }

  /** Number of connected processes and hubs. */
  get connections(): number {
    return this.#children.size;
  }

  /** Age of the last answer from above, in milliseconds. */
  get ageMs(): number {
    return this.#options.monotonic() - this.#answeredAt;
  }

  /** Smoothed round trip to the primary, in milliseconds. */
  get roundTripMs(): number {
    return this.#rttMs;
  }

  start(): void {
    this.#sweep = setInterval(() => this.#leaveSilent(), SILENT_MS / 2);
    this.#followers.start();
    this.#ask();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#stopped = true;
    clearInterval(this.#sweep);
    this.#followers.stop();
    for (const { connection } of this.#children) {
      connection.close();
    }
  }

  /**
   * Whether a certificate, by its SHA-256 in hexadecimal, is revoked as far as this hub knows. It has no key to prove
   * that with, so a parent hub can make it reject others, as it can by silence.
   */
  deniesCertificate(thumbprint: string): boolean {
    return this.#revoked.has(thumbprint);
  }

  /** Takes a connection. @returns what to call with its messages, and at its end */
  accept(connection: HubConnection): { onMessage(text: string): void; onClose(): void } | undefined {
    if (this.#children.size >= CHILDREN_MAX) {
      return undefined;
    }
    if (connection.certificate !== undefined && this.#revoked.has(connection.certificate)) {
      this.#options.log.warn({}, REVOKED);
      return undefined;
    }
    const heardAt = this.#options.monotonic();
    const child: Child = {
      connection,
      followers: new Set(),
      nonces: [],
      sent: this.#sequence,
      awaitsSnapshot: false,
      snapshot: undefined,
      heardAt,
    };
    this.#children.add(child);
    return {
      onMessage: (text) => this.#read(child, text),
      onClose: () => {
        this.#children.delete(child);
        this.#followers.forget(child, [...child.followers], false);
      },
    };
  }

  /** Relays a revocation at its commit. */
  hear(line: string, state: Attestation): void {
    const before = this.#sequence;
    this.#keep([line]);
    const text = JSON.stringify({ type: "line", line, ...state } satisfies Reply);
    for (const child of this.#children) {
      this.#bring(child, state.sequence - 1);
      child.sent = Math.max(child.sent, state.sequence);
      this.#sendText(child, text);
    }
    if (this.#sequence > before) {
      this.#options.upstream.relayed(this.#sequence);
    }
  }

  #leaveSilent(): void {
    const now = this.#options.monotonic();
    for (const { connection, heardAt } of this.#children) {
      if (now - heardAt > SILENT_MS) {
        connection.close();
      }
    }
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
    clearTimeout(this.#timer);
    if (this.#stopped) {
      return;
    }
    const now = this.#options.monotonic();
    const pauseEnds = this.#askedAt + this.#every();
    const wanted = this.#waiting ? Math.min(this.#dueAt, pauseEnds + GATHER_MS) : this.#askedAt + IDLE_MS;
    this.#timer = setTimeout(() => this.#ask(), Math.max(0, Math.ceil(wanted - now)));
  }

  #ask(): void {
    const { monotonic, upstream, log } = this.#options;
    this.#dueAt = Number.POSITIVE_INFINITY;
    this.#askedAt = monotonic();
    if (this.#underWay >= UNDER_WAY_MAX) {
      this.#plan();
      return;
    }
    const askedAt = this.#askedAt;
    const waiting: { child: Child; nonce: Nonce }[] = [];
    for (const child of this.#children) {
      child.nonces = child.nonces.filter(({ answered, carried }) => !answered && carried < CARRIED_MAX);
      for (const nonce of child.nonces) {
        nonce.carried += 1;
        waiting.push({ child, nonce });
      }
    }
    this.#waiting = false;
    const asked = waiting.slice(0, TREE_NONCES_MAX);
    const after = this.#sequence;
    const { root, paths } = treeOf(asked.map(({ nonce }) => nonce.bytes));
    this.#underWay += 1;
    upstream
      .ask(root, { keysDigest: this.#keys?.digest, after })
      .then((answer) => {
        this.#answeredAt = monotonic();
        const rtt = this.#answeredAt - askedAt;
        this.#rttMs = this.#rttMs === 0 ? rtt : this.#rttMs + (rtt - this.#rttMs) / 8;
        this.#learn(answer, after);
        this.#readRevoked().catch(() => undefined);
        const proof = JSON.stringify({ type: "proof", ...answer.proof }).slice(0, -1);
        const above = answer.trees.map((path) => `,${JSON.stringify(path)}`).join("");
        for (const [index, { child, nonce }] of asked.entries()) {
          if (nonce.answered) {
            continue;
          }
          nonce.answered = true;
          const path = JSON.stringify(paths[index] ?? []);
          const trees = `[${path}${above}]`;
          this.#prove(child, answer.proof.sequence, `${proof},"nonce":"${nonce.text}","trees":${trees}}`);
        }
        this.#dueAt = Math.max(monotonic() + GATHER_MS, this.#askedAt + this.#every() - GATHER_MS);
        this.#plan();
      })
      .catch((error: unknown) => log.debug({ err: error }, "a question for a proof failed"))
      .finally(() => {
        this.#underWay -= 1;
      });
    this.#plan();
  }

  /** Begins again, at a state that nothing known leads to. */
  #begin({ epoch, sequence }: SequenceState): void {
    this.#lines.clear();
    this.#snapshot = undefined;
    this.#epoch = epoch;
    this.#sequence = sequence;
  }

  #learn({ proof, lines, keys }: HubAnswer, after: number): void {
    if (proof.epoch !== this.#epoch || proof.sequence < after) {
      // Another database, or an older state of this one.
      this.#begin(proof);
    }
    const before = this.#sequence;
    this.#keep(lines);
    if (!this.#lines.lead(proof)) {
      this.#options.log.warn(
        { sequence: proof.sequence },
        "the revocations lead elsewhere; all are read again",
      );
      this.#begin(proof);
    }
    if (this.#sequence > before) {
      for (const child of this.#children) {
        this.#bring(child, this.#sequence);
      }
      this.#options.upstream.relayed(this.#sequence);
    }
    if (keys !== undefined) {
      this.#keys = { text: keys, digest: proof.keysDigest };
    }
  }

  /** Ends the connections whose certificates these lines revoke. */
  #denyCertificates(lines: string): void {
    for (const thumbprint of certificatesIn(lines)) {
      this.#revoked.add(thumbprint);
    }
    for (const { connection } of this.#children) {
      if (connection.certificate !== undefined && this.#revoked.has(connection.certificate)) {
        this.#options.log.warn({}, REVOKED);
        connection.close();
      }
    }
  }

  /** Reads the certificates that were revoked before this hub started, unless that is done. */
  async #readRevoked(): Promise<void> {
    const now = this.#options.monotonic();
    if (!this.#knowsRevoked && this.#snapshot === undefined && now >= this.#readsRevokedAt) {
      this.#readsRevokedAt = now + READ_AGAIN_MS;
      await this.#readSnapshot();
    }
  }

  /** Reads all live revocations, once for all who ask. */
  async #readSnapshot(): Promise<Snapshot> {
    this.#snapshot ??= this.#options.upstream.snapshot();
    const reading = this.#snapshot;
    try {
      const snapshot = await reading;
      if (!this.#knowsRevoked) {
        this.#knowsRevoked = true;
        this.#denyCertificates(snapshot.lines);
      }
      return snapshot;
    } catch (error) {
      if (this.#snapshot === reading) {
        this.#snapshot = undefined;
      }
      this.#options.log.warn({ err: error }, "a snapshot of the revocations could not be read");
      throw error;
    }
  }

  #keep(lines: readonly string[]): void {
    for (const line of lines) {
      const sequence = this.#lines.keep(line);
      if (sequence !== undefined) {
        this.#denyCertificates(line);
        this.#sequence = Math.max(this.#sequence, sequence);
      }
    }
    if (this.#lines.shorten(this.#sequence)) {
      this.#snapshot = undefined;
    }
  }

  /** Sends the lines that a child lacks up to a number. */
  #bring(child: Child, sequence: number): void {
    const parts = this.#lines.between(child.sent, sequence);
    child.sent = Math.max(child.sent, sequence);
    parts.forEach((lines) => this.#send(child, { type: "lines", lines }));
  }

  /** Sends a proof, whose text is mostly the same for all, after the lines that it covers. */
  #prove(child: Child, sequence: number, text: string): void {
    if (this.#children.has(child)) {
      this.#bring(child, sequence);
      this.#sendText(child, text);
    }
  }

  #send(child: Child, reply: Reply): void {
    this.#sendText(child, JSON.stringify(reply));
  }

  #sendText({ connection }: Child, text: string): void {
    if (connection.backlog > BACKLOG_MAX) {
      connection.close();
      return;
    }
    connection.send(text);
  }

  #read(child: Child, text: string): void {
    child.heardAt = this.#options.monotonic();
    const request = readRequest(text);
    if (request === undefined) {
      child.connection.close();
      return;
    }
    switch (request.type) {
      case "follow":
        if (!this.#followers.follow(child, request.follower)) {
          child.connection.close();
        }
        break;
      case "nonce":
        this.#wait(child, request.nonce);
        break;
      case "lines":
        this.#sendLines(child, request.after);
        break;
      case "snapshot":
        void this.#sendSnapshot(child);
        break;
      case "more":
        this.#sendChunk(child);
        break;
      case "keys":
        if (this.#keys !== undefined) {
          this.#send(child, { type: "keys", keys: this.#keys.text });
        }
        break;
      case "applied":
        this.#followers.apply(child, request);
        break;
      case "gone":
        this.#followers.forget(child, [request.lockKey], request.stopped);
        break;
    }
  }

  #wait(child: Child, nonce: string): void {
    if (child.nonces.length >= NONCES_OF_ONE_MAX * CARRIED_MAX) {
      child.nonces.shift();
    }
    child.nonces.push({ text: nonce, bytes: Buffer.from(nonce, "base64url"), carried: 0, answered: false });
    if (!this.#waiting) {
      this.#waiting = true;
      this.#plan();
    }
  }

  /** Answers a request for lines, also without any. */
  #sendLines(child: Child, after: number): void {
    child.snapshot = undefined; // It reads none, or no longer.
    child.sent = this.#sequence;
    for (const lines of [...this.#lines.between(after, this.#sequence), []]) {
      this.#send(child, { type: "lines", lines });
    }
  }

  #sendChunk(child: Child): void {
    const text = child.snapshot?.next();
    if (text !== undefined) {
      this.#send(child, { type: "chunk", text });
    }
  }

  /** Answers a request for a snapshot, unless it cannot be read. The child then requests it again. */
  async #sendSnapshot(child: Child): Promise<void> {
    if (child.awaitsSnapshot) {
      return;
    }
    child.awaitsSnapshot = true;
    try {
      const { lines, ...head } = await this.#readSnapshot();
      child.snapshot = new SnapshotChunks(lines);
      this.#send(child, { type: "snapshot", chunks: child.snapshot.count, ...head });
      child.sent = Math.min(child.sent, head.sequence);
      this.#bring(child, this.#sequence);
      for (let ahead = 0; ahead < CHUNKS_AHEAD; ahead += 1) {
        this.#sendChunk(child);
      }
    } catch {
      // Logged already.
    } finally {
      child.awaitsSnapshot = false;
    }
  }
}
