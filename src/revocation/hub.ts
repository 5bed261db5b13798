/**
 * A hub: relays the primary's proofs to the processes of a region, so that the primary answers one question for all of
 * them (decision 33). It holds no key and decides nothing. It follows the primary or another hub.
 */
import type { FollowerRow } from "#database/repositories/tokens/revocations.ts";
import { TokenBucket } from "#domain/token-buckets.ts";
import type { Logger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import { HubPeer } from "./hub-peer.ts";
import { type HubAnswer, HubQuestions, type Upstream } from "./hub-questions.ts";
import { type HubConnection, readRequest, type Reply, type Request } from "./hub-messages.ts";
import { FollowerReports, type Reporting } from "./follower-reports.ts";
import { certificatesIn } from "./chain.ts";
import { HubLines, SnapshotChunks } from "./hub-lines.ts";
import type { Attestation, SequenceState, Snapshot } from "./proof.ts";
import { processId } from "./receipt.ts";
import type { Timer, Timers } from "#domain/clock.ts";

export interface HubOptions {
  readonly upstream: Upstream;
  readonly leaseMs: number;
  readonly timers: Timers;
  readonly log: Logger;
}

/**
 * Chunks of a snapshot that are under way to one process: 1 MiB, so that proofs do not wait long behind them, and a
 * round trip of 180 ms still carries 46 Mbit/s.
 */
const CHUNKS_AHEAD = 4;
/** Messages of one process in a second. An edge sends at most fifty nonces and as many acknowledgements. */
const MESSAGES_MAX = 1_000;
/** Connections of one hub. */
const CHILDREN_MAX = 2_000;
/** Silence after which a connection counts as dead, in milliseconds. A process asks at least every 200 ms. */
const SILENT_MS = 10_000;
/** Silence after which a connection gives way to another one with the same certificate, in milliseconds. */
const GIVES_WAY_MS = 3_000;
/** Pause before a chunk is sent to a process for which too much waits. */
const CHUNK_AGAIN_MS = 50;

/** Pause before the revoked certificates are read again after a failure. */
const READ_AGAIN_MS = 5_000;
const TOO_MANY =
  "a connection to this hub introduced more than its own process; if it is of a hub, SIGNET_HUB_RELAY_NAMES must name it";
const REVOKED = "a connection to this hub was refused: its certificate is revoked";
/** A process or hub behind this one. */
interface Child extends Reporting {
  readonly connection: HubConnection;
  readonly peer: HubPeer;
  /** The last line sent. */
  sent: number;
  /** Whether a snapshot is being read for it. */
  awaitsSnapshot: boolean;
  /** The snapshot that it reads. */
  snapshot: SnapshotChunks | undefined;
  /** Sends the next chunk when there is room. */
  laterChunk: Timer | undefined;
  /** When its last message came. */
  heardAt: number;
  /** What it may still send. */
  readonly messages: TokenBucket;
  /** The lock key of the process that it has introduced. */
  introduced: number | undefined;
  /** Whether it is logged that it introduced too many. */
  warned: boolean;
}

export class Hub {
  readonly #options: HubOptions;
  readonly #questions: HubQuestions<Child>;
  readonly #children = new Set<Child>();
  readonly #lines = new HubLines();
  readonly #followers: FollowerReports;
  /** By the certificates of their connections. */
  readonly #peers = new Map<string, HubPeer>();
  /** SHA-256 of revoked certificates, in hexadecimal. */
  readonly #revoked = new Set<string>();
  #knowsRevoked = false;
  /** When they are read, unless they are known. */
  #readsRevokedAt = Number.NEGATIVE_INFINITY;
  #snapshot: Promise<Snapshot> | undefined;
  #epoch: string | undefined;
  #sequence = 0;
  #keys: { readonly text: string; readonly digest: string } | undefined;
  #sweep: Timer | undefined;

  constructor(options: HubOptions) {
    this.#options = options;
    this.#followers = new FollowerReports(options);
    this.#questions = new HubQuestions({
      ...options,
      known: () => ({ keysDigest: this.#keys?.digest, after: this.#sequence }),
      onAnswer: (answer, after) => {
        this.#learn(answer, after);
        this.#readRevoked().catch(() => undefined);
      },
      onProof: (child, sequence, text) => this.#prove(child, sequence, text),
    });
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
    return this.#questions.ageMs;
  }

  /** Smoothed round trip to the primary, in milliseconds. */
  get roundTripMs(): number {
    return this.#questions.roundTripMs;
  }

  start(): void {
    this.#sweep = this.#options.timers.every(SILENT_MS / 2, () => this.#leaveSilent());
    this.#followers.start();
    this.#questions.start();
  }

  stop(): void {
    this.#questions.stop();
    this.#options.timers.cancel(this.#sweep);
    this.#followers.stop();
    for (const { connection, peer } of this.#children) {
      connection.close();
      peer.close();
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
    const heardAt = this.#options.timers.monotonic();
    const peer = this.#peerOf(connection);
    const child: Child = {
      connection,
      peer,
      followers: new Set(),
      sent: this.#sequence,
      awaitsSnapshot: false,
      snapshot: undefined,
      laterChunk: undefined,
      heardAt,
      messages: new TokenBucket(MESSAGES_MAX, heardAt),
      introduced: undefined,
      warned: false,
    };
    this.#children.add(child);
    peer.connections.add(connection);
    return {
      onMessage: (text) => this.#read(child, text),
      onClose: () => {
        this.#children.delete(child);
        this.#questions.forget(child);
        peer.connections.delete(connection);
        this.#followers.forget(child, [...child.followers], false);
      },
    };
  }

  /**
   * Ends the connection with this certificate, by its SHA-256 in hexadecimal, that has been silent for longest. After a
   * network was cut in silence, each process opens another connection, and its earlier one is still here.
   *
   * @returns whether there was a silent one
   */
  giveWay(certificate: string): boolean {
    const [silent] = [...this.#children]
      .filter(({ connection }) => connection.certificate === certificate)
      .sort((a, b) => a.heardAt - b.heardAt);
    if (silent === undefined || this.#options.timers.monotonic() - silent.heardAt < GIVES_WAY_MS) {
      return false;
    }
    // Its end takes a moment, in which others may come.
    this.#children.delete(silent);
    silent.connection.close();
    return true;
  }

  /** Relays a revocation at its commit. */
  relay(line: string, state: Attestation): void {
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

  /** Returns what the connections with the same certificate share. Without certificates, in development, none do. */
  #peerOf({ certificate }: HubConnection): HubPeer {
    const peer = this.#peers.get(certificate ?? "") ?? new HubPeer(this.#options.timers);
    if (certificate !== undefined) {
      this.#peers.set(certificate, peer);
    }
    return peer;
  }

  #leaveSilent(): void {
    const now = this.#options.timers.monotonic();
    for (const [certificate, peer] of this.#peers) {
      if (peer.isGone()) {
        peer.close();
        this.#peers.delete(certificate);
      }
    }
    for (const { connection, heardAt } of this.#children) {
      if (now - heardAt > SILENT_MS) {
        connection.close();
      }
    }
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
    const now = this.#options.timers.monotonic();
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
      this.#charge(child, text);
    }
  }

  #send(child: Child, reply: Reply): void {
    const text = JSON.stringify(reply);
    this.#sendText(child, text);
    this.#charge(child, text);
  }

  #sendText({ connection, peer }: Child, text: string): void {
    if (peer.hasRoom(connection)) {
      connection.send(text);
    } else {
      this.#fault(connection, "backlog");
    }
  }

  /** Ends a connection that does what no honest process does. */
  #fault(connection: HubConnection, reason: "malformed" | "backlog" | "rate"): void {
    metrics.hubFaults.inc({ reason });
    connection.close();
  }

  #read(child: Child, text: string): void {
    child.heardAt = this.#options.timers.monotonic();
    const request = readRequest(text);
    if (request === undefined) {
      this.#fault(child.connection, "malformed");
    } else if (this.#isFlood(child)) {
      this.#fault(child.connection, "rate");
    } else {
      this.#answer(child, request);
    }
    this.#charge(child, text);
  }

  #isFlood(child: Child): boolean {
    const { connection, messages, heardAt } = child;
    return connection.relays !== true && messages.take(MESSAGES_MAX, MESSAGES_MAX, heardAt) > 0;
  }

  /** Counts a message of an edge, or an answer to one, as its certificate's. */
  #charge({ connection, peer }: Child, text: string): void {
    if (connection.relays !== true) {
      peer.spend(text.length);
    }
  }

  #answer(child: Child, request: Request): void {
    switch (request.type) {
      case "follow":
        this.#follow(child, request.follower);
        break;
      case "nonce":
        this.#questions.wait(child, request.nonce);
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

  /** Adds a process behind this hub. Only a hub may introduce several; others are counted, and in no receipt. */
  #follow(child: Child, follower: FollowerRow): void {
    const { connection, peer } = child;
    const { lockKey } = follower;
    const isOwn =
      connection.relays === true || ((child.introduced ?? lockKey) === lockKey && peer.introduce(lockKey));
    if (isOwn && this.#followers.follow(child, follower)) {
      child.introduced = lockKey;
      return;
    }
    metrics.hubFaults.inc({ reason: "followers" });
    if (!child.warned) {
      child.warned = true;
      this.#options.log.warn({ follower: processId(follower) }, TOO_MANY);
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
    if (!child.peer.hasRoom(child.connection)) {
      child.laterChunk ??= this.#options.timers
        .after(CHUNK_AGAIN_MS, () => {
          child.laterChunk = undefined;
          this.#sendChunk(child);
        })
        .unref();
      return;
    }
    const text = child.snapshot?.next();
    if (text !== undefined && this.#children.has(child)) {
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
