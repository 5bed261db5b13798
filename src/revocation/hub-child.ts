/** A connection of a process or hub behind a hub: reads its requests, and answers them. */
import type { FollowerRow } from "#database/repositories/tokens/revocations.ts";
import type { Timer, Timers } from "#domain/clock.ts";
import { TokenBucket } from "#domain/token-buckets.ts";
import type { Logger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import type { FollowerReports, Reporting } from "./follower-reports.ts";
import {
  CHUNK_CHARACTERS_MAX,
  type HubConnection,
  readRequest,
  type Reply,
  type Request,
} from "./hub-messages.ts";
import type { HubPeer } from "./hub-peer.ts";
import type { HubQuestions } from "./hub-questions.ts";
import type { HubRevocations } from "./hub-revocations.ts";
import { processId } from "./receipt.ts";

/**
 * Chunks of a snapshot that are under way to one process: 1 MiB, so that proofs do not wait long behind them, and a
 * round trip of 180 ms still carries 46 Mbit/s.
 */
const CHUNKS_AHEAD = 4;
/** Messages of one process in a second. An edge sends at most fifty nonces and as many acknowledgements. */
const MESSAGES_MAX = 1_000;
/** Pause before a chunk is sent to a process for which too much waits. */
const CHUNK_AGAIN_MS = 50;
const TOO_MANY =
  "a connection to this hub introduced more than its own process; if it is of a hub, SIGNET_HUB_RELAY_NAMES must name it";

/** The lines of a snapshot, from the next chunk on. */
export class SnapshotChunks {
  readonly count: number;
  #rest: string;

  constructor(lines: string) {
    this.count = Math.ceil(lines.length / CHUNK_CHARACTERS_MAX);
    this.#rest = lines;
  }

  /** Returns the next chunk; undefined after the last one. */
  next(): string | undefined {
    if (this.#rest === "") {
      return undefined;
    }
    const chunk = this.#rest.slice(0, CHUNK_CHARACTERS_MAX);
    this.#rest = this.#rest.slice(CHUNK_CHARACTERS_MAX);
    return chunk;
  }
}

/** What the connections of a hub share. */
export interface ChildServices {
  readonly revocations: HubRevocations;
  readonly questions: HubQuestions<HubChild>;
  readonly followers: FollowerReports;
  /** The connections in use. */
  readonly children: ReadonlySet<HubChild>;
  readonly timers: Timers;
  readonly log: Logger;
}

export class HubChild implements Reporting {
  readonly followers = new Set<number>();
  readonly connection: HubConnection;
  /** What the connections with the same certificate share. */
  readonly peer: HubPeer;
  readonly #services: ChildServices;
  /** What it may still send. */
  readonly #messages: TokenBucket;
  /** When its last message came. */
  heardAt: number;
  /** The last line sent. */
  #sent: number;
  /** Whether a snapshot is being read for it. */
  #awaitsSnapshot = false;
  /** The snapshot that it reads. */
  #snapshot: SnapshotChunks | undefined;
  /** Sends the next chunk when there is room. */
  #laterChunk: Timer | undefined;
  /** The lock key of the process that it has introduced. */
  #introduced: number | undefined;
  /** Whether it is logged that it introduced too many. */
  #warned = false;

  constructor(connection: HubConnection, peer: HubPeer, services: ChildServices) {
    this.connection = connection;
    this.peer = peer;
    this.#services = services;
    this.heardAt = services.timers.monotonic();
    this.#messages = new TokenBucket(MESSAGES_MAX, this.heardAt);
    this.#sent = services.revocations.sequence;
  }

  /** Takes a message of the process or hub. */
  read(text: string): void {
    this.heardAt = this.#services.timers.monotonic();
    const request = readRequest(text);
    if (request === undefined) {
      this.#fault("malformed");
    } else if (this.#isFlood()) {
      this.#fault("rate");
    } else {
      this.#answer(request);
    }
    this.#charge(text);
  }

  /** Sends a line, whose text is the same for all, after those before it. */
  relay(sequence: number, text: string): void {
    this.bring(sequence - 1);
    this.#sent = Math.max(this.#sent, sequence);
    this.#sendText(text);
  }

  /** Sends the lines that it lacks up to a number. */
  bring(sequence: number): void {
    const parts = this.#services.revocations.lines.between(this.#sent, sequence);
    this.#sent = Math.max(this.#sent, sequence);
    parts.forEach((lines) => this.#send({ type: "lines", lines }));
  }

  /** Sends a proof, whose text is mostly the same for all, after the lines that it covers. */
  prove(sequence: number, text: string): void {
    if (this.#services.children.has(this)) {
      this.bring(sequence);
      this.#sendText(text);
      this.#charge(text);
    }
  }

  #send(reply: Reply): void {
    const text = JSON.stringify(reply);
    this.#sendText(text);
    this.#charge(text);
  }

  #sendText(text: string): void {
    if (this.peer.hasRoom(this.connection)) {
      this.connection.send(text);
    } else {
      this.#fault("backlog");
    }
  }

  /** Ends a connection that does what no honest process does. */
  #fault(reason: "malformed" | "backlog" | "rate"): void {
    metrics.hubFaults.inc({ reason });
    this.connection.close();
  }

  #isFlood(): boolean {
    return (
      this.connection.relays !== true && this.#messages.take(MESSAGES_MAX, MESSAGES_MAX, this.heardAt) > 0
    );
  }

  /** Counts a message of an edge, or an answer to one, as its certificate's. */
  #charge(text: string): void {
    if (this.connection.relays !== true) {
      this.peer.spend(text.length);
    }
  }

  #answer(request: Request): void {
    const { revocations, questions, followers } = this.#services;
    switch (request.type) {
      case "follow":
        this.#follow(request.follower);
        break;
      case "nonce":
        questions.wait(this, request.nonce);
        break;
      case "lines":
        this.#sendLines(request.after);
        break;
      case "snapshot":
        void this.#sendSnapshot();
        break;
      case "more":
        this.#sendChunk();
        break;
      case "keys":
        if (revocations.keys !== undefined) {
          this.#send({ type: "keys", keys: revocations.keys.text });
        }
        break;
      case "applied":
        followers.apply(this, request);
        break;
      case "gone":
        followers.forget(this, [request.lockKey], request.stopped);
        break;
    }
  }

  /** Adds a process behind this hub. Only a hub may introduce several; others are counted, and in no receipt. */
  #follow(follower: FollowerRow): void {
    const { lockKey } = follower;
    const isOwn =
      this.connection.relays === true ||
      ((this.#introduced ?? lockKey) === lockKey && this.peer.introduce(lockKey));
    if (isOwn && this.#services.followers.follow(this, follower)) {
      this.#introduced = lockKey;
      return;
    }
    metrics.hubFaults.inc({ reason: "followers" });
    if (!this.#warned) {
      this.#warned = true;
      this.#services.log.warn({ follower: processId(follower) }, TOO_MANY);
    }
  }

  /** Answers a request for lines, also without any. */
  #sendLines(after: number): void {
    const { revocations } = this.#services;
    this.#snapshot = undefined; // It reads none, or no longer.
    this.#sent = revocations.sequence;
    for (const lines of [...revocations.lines.between(after, revocations.sequence), []]) {
      this.#send({ type: "lines", lines });
    }
  }

  #sendChunk(): void {
    if (!this.peer.hasRoom(this.connection)) {
      if (this.#laterChunk === undefined) {
        const again = (): void => {
          this.#laterChunk = undefined;
          this.#sendChunk();
        };
        this.#laterChunk = this.#services.timers.after(CHUNK_AGAIN_MS, again).unref();
      }
      return;
    }
    const text = this.#snapshot?.next();
    if (text !== undefined && this.#services.children.has(this)) {
      this.#send({ type: "chunk", text });
    }
  }

  /** Answers a request for a snapshot, unless it cannot be read. The other side then requests it again. */
  async #sendSnapshot(): Promise<void> {
    if (this.#awaitsSnapshot) {
      return;
    }
    this.#awaitsSnapshot = true;
    const { revocations } = this.#services;
    try {
      const { lines, ...head } = await revocations.snapshot();
      this.#snapshot = new SnapshotChunks(lines);
      this.#send({ type: "snapshot", chunks: this.#snapshot.count, ...head });
      this.#sent = Math.min(this.#sent, head.sequence);
      this.bring(revocations.sequence);
      for (let ahead = 0; ahead < CHUNKS_AHEAD; ahead += 1) {
        this.#sendChunk();
      }
    } catch {
      // Logged already.
    } finally {
      this.#awaitsSnapshot = false;
    }
  }
}
