/**
 * Follows the revocations through hubs (decision 33), each over a connection of its own; the better lease counts.
 * Network, time and randomness are arguments.
 */
import type { KeptConnection } from "#runtime/kept-connection.ts";
import type { FollowerRow } from "#database/repositories/tokens/revocations.ts";
import type { Clock, Timer, Timers } from "#domain/clock.ts";
import { TokenBucket } from "#domain/token-buckets.ts";
import type { RandomBytes } from "#domain/ids.ts";
import type { Logger } from "#observability/logger.ts";
import { afterLoopTime } from "#runtime/loop-time.ts";
import {
  type HubConnection,
  HUB_PROTOCOL,
  type OpenHubConnection,
  readReply,
  type Request,
} from "./hub-messages.ts";
import { keepHubConnection } from "./kept-hub.ts";
import { HubSession, type KnowledgeOptions, ProvenKnowledge } from "./hub-session.ts";
import type { CheckCode } from "./proof.ts";
import { x5tOf } from "./deny-list.ts";
import { processId } from "./receipt.ts";
import type { RevocationView } from "./view.ts";

/**
 * Shortest and longest pause between two nonces. The hubs get them in turns: if each had a pace of its own, their proofs
 * could come at the same time, and then none while a lease ends.
 */
const PAUSE_MIN_MS = 20;
const PAUSE_MAX_MS = 100;
/** The pause as a share of what is left of a lease when its proof arrives. */
const PAUSE_SHARE = 0.65;
/** Share of the pause after which a proof is followed by a nonce, because a hub asks soon after it has brought a proof. */
const EARLY = 0.75;
/** Weight of the last proof in the average of how long proofs take. */
const SMOOTHING = 0.125;
/** Time without a proof after which a hub's nonces no longer count, and after which another connection is opened. */
const QUIET_MS = 400;
const USELESS_MS = 2_000;
/**
 * Loop time without a proof after which requests no longer wait for one: more than the longest way to the primary and
 * back, and with a lease less than half a second (docs/runbook.md, A region is cut off).
 */
const SILENT_MS = 300;
/** How long a start waits for the first proof, in milliseconds. */
const START_MOST_MS = 3_000;
const SWEEP_EVERY_MS = 60_000;
/** Shortest pause between two acknowledgements, in milliseconds. */
const ACKNOWLEDGE_EVERY_MS = 20;
/** Invalid messages after which a connection is given up. */
const FAULTS_MAX = 8;
/**
 * Characters of messages that were not requested, in a second and at once: 16,000 revocations. Reading as many takes 20
 * and 40 ms.
 */
const UNASKED_PER_SECOND = 4_194_304;
const UNASKED_BURST = 8_388_608;
const REVOKED = "the hub's certificate is revoked";

export interface HubFollowerOptions extends Pick<KnowledgeOptions, "onKeys" | "time"> {
  /** URLs of the hubs. */
  readonly hubs: readonly string[];
  readonly open: OpenHubConnection;
  readonly checkCode: CheckCode;
  readonly identity: Omit<FollowerRow, "leaseMs">;
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
}

/** The connection to one hub, opened again whenever it is lost or silent. */
class HubLink {
  readonly #options: HubFollowerOptions;
  readonly #knowledge: ProvenKnowledge;
  readonly #hub: string;
  readonly #onProof: (renewed: boolean) => void;
  readonly #kept: KeptConnection<HubConnection>;
  /** How long a proof takes, smoothed, in milliseconds. */
  #latencyMs = 0;
  #session: HubSession | undefined;
  /** When the last proof was read. */
  #provedAt = 0;
  #faults = 0;
  readonly #unasked: TokenBucket;

  constructor(
    options: HubFollowerOptions,
    knowledge: ProvenKnowledge,
    hub: string,
    onProof: (renewed: boolean) => void,
  ) {
    this.#options = options;
    this.#knowledge = knowledge;
    this.#hub = hub;
    this.#onProof = onProof;
    this.#unasked = new TokenBucket(UNASKED_BURST, options.timers.monotonic());
    this.#kept = keepHubConnection(hub, {
      ...options,
      onMessage: (text) => this.#read(text),
      onOpen: (connection) => this.#begin(connection),
      onLost: () => {
        this.#session = undefined;
      },
    });
  }

  async connect(): Promise<void> {
    await this.#kept.start();
  }

  #begin(connection: HubConnection): void {
    const { identity, leaseMs, log, timers } = this.#options;
    if (this.#isRevoked(connection)) {
      this.#kept.leave(new Error(REVOKED));
      return;
    }
    this.#faults = 0;
    this.#provedAt = timers.monotonic();
    this.#session = new HubSession(this.#knowledge, (request) => this.send(request));
    this.send({ type: "follow", version: HUB_PROTOCOL, follower: { ...identity, leaseMs } });
    const sequence = this.#knowledge.view.applied;
    if (sequence > 0) {
      this.send({ type: "applied", lockKey: identity.lockKey, sequence, sinceMs: 0 });
    }
    this.#session.begin();
    log.info({ hub: this.#hub, follower: processId(identity) }, "following revocations through a hub");
  }

  #isRevoked(connection: HubConnection | undefined): boolean {
    const { certificate } = connection ?? {};
    const { view } = this.#knowledge;
    return certificate !== undefined && view.deniesCertificate(x5tOf(certificate));
  }

  get connected(): boolean {
    return this.#kept.connection !== undefined;
  }

  get latencyMs(): number {
    return this.#latencyMs;
  }

  /**
   * Draws a nonce. A hub that brings no proof for long gets another connection, in case that helps.
   *
   * @returns when it was drawn, by the monotonic clock; undefined if no proof is to be expected
   */
  ask(): number | undefined {
    const askedAt = this.#session?.ask();
    if (askedAt === undefined) {
      return undefined;
    }
    this.#kept.expect();
    const silentMs = askedAt - this.#provedAt;
    if (silentMs >= USELESS_MS) {
      this.#kept.replace();
    }
    return silentMs < QUIET_MS ? askedAt : undefined;
  }

  send(request: Request): void {
    this.#kept.connection?.send(JSON.stringify(request));
  }

  close(): void {
    this.#kept.stop();
    this.#session = undefined;
  }

  #read(text: string): void {
    const session = this.#session;
    if (session === undefined) {
      return;
    }
    const reply = readReply(text);
    if ((reply === undefined || !session.awaits(reply.type)) && this.#isFlood(text.length)) {
      this.#kept.leave(new Error("the hub sends more than was asked for"));
      return;
    }
    const effect = reply === undefined ? { fault: "malformed" } : session.read(reply);
    if (typeof effect === "object" && "fault" in effect) {
      this.#fault(effect.fault);
      return;
    }
    if (effect === "none") {
      return;
    }
    if (this.#isRevoked(this.#kept.connection)) {
      this.#kept.leave(new Error(REVOKED));
      return;
    }
    this.#provedAt = this.#options.timers.monotonic();
    this.#kept.proved();
    if (typeof effect === "object") {
      this.#latencyMs += (effect.renewedAfterMs - this.#latencyMs) * (this.#latencyMs === 0 ? 1 : SMOOTHING);
    } else if (effect === "restored") {
      this.#options.log.error(
        { hub: this.#hub, sequence: this.#knowledge.view.sequence },
        "the database lacks revocations that are known here; they are kept, and everything is read again",
      );
    }
    this.#onProof(typeof effect === "object");
  }

  /** Whether a message that was not requested is too much. A connection that is opened again changes nothing. */
  #isFlood(length: number): boolean {
    this.#unasked.charge(length);
    return this.#unasked.waitMs(UNASKED_PER_SECOND, UNASKED_BURST, this.#options.timers.monotonic()) > 0;
  }

  /** An invalid message has no effect. A hub that sends many is left. */
  #fault(reason: string): void {
    this.#faults += 1;
    this.#options.log.error({ hub: this.#hub, reasons: [reason] }, "a hub sent an invalid message");
    if (this.#faults >= FAULTS_MAX) {
      this.#kept.leave(new Error("the hub's messages are invalid"));
    }
  }
}

/** Follows the revocations through hubs. */
export class HubFollower {
  readonly view: RevocationView;
  readonly #options: HubFollowerOptions;
  readonly #links: readonly HubLink[];
  readonly #waiting = new Set<(proved: boolean) => void>();
  /** Whether no hub brings proofs, and what cancels the watch for that. */
  #isSilent = false;
  #watch: (() => void) | undefined;
  #next: Timer | undefined;
  /** When the last nonce was drawn, and the link that draws the next one. */
  #askedAt = Number.NEGATIVE_INFINITY;
  #turn = 0;
  #stopped = false;
  #sweeps: Timer | undefined;
  #renewal: Promise<boolean> | undefined;
  #acknowledged = 0;
  /** Ends the pause after an acknowledgement. */
  #acknowledging: Timer | undefined;

  constructor(options: HubFollowerOptions) {
    this.#options = options;
    const knowledge = new ProvenKnowledge({ ...options, onApplied: () => this.#acknowledge() });
    this.view = knowledge.view;
    this.#links = options.hubs.map(
      (hub, number) => new HubLink(options, knowledge, hub, (renewed) => this.#proved(number, renewed)),
    );
  }

  /** Starts to follow. Resolves after the first proof that counts, or after three seconds without one. */
  async start(): Promise<void> {
    this.#plan();
    this.#watchProofs(START_MOST_MS);
    this.#sweeps = this.#options.timers.every(SWEEP_EVERY_MS, () => this.view.prune()).unref();
    const started = this.#nextProof();
    await Promise.all(this.#links.map(async (link) => await link.connect()));
    await started;
  }

  /** Waits until tokens can be admitted. @returns false if no hub brings a proof */
  async renew(): Promise<boolean> {
    if (this.#isSilent) {
      return this.view.current;
    }
    if (this.#renewal === undefined) {
      this.#renewal = this.view
        .renewedBy(async () => await this.#nextProof())
        .finally(() => {
          this.#renewal = undefined;
        });
      this.#ask();
    }
    return await this.#renewal;
  }

  /** Resolves if tokens can be admitted. Rejects if the knowledge is too old and cannot be renewed. */
  async requireCurrent(): Promise<void> {
    if (!this.view.current && !(await this.renew())) {
      throw new Error("revocations are not followed: no hub brings a proof");
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#options.timers.cancel(this.#next);
    this.#options.timers.cancel(this.#acknowledging);
    this.#options.timers.cancel(this.#sweeps);
    this.#watch?.();
    for (const link of this.#links) {
      link.send({ type: "gone", lockKey: this.#options.identity.lockKey, stopped: true });
    }
    // The hubs read it before the connections close.
    await this.#options.timers.sleep(0);
    for (const link of this.#links) {
      link.close();
    }
  }

  /** A nonce follows a proof if it is the hub's turn. */
  #proved(number: number, renewed: boolean): void {
    if (
      number === this.#turn &&
      this.#options.timers.monotonic() - this.#askedAt >= EARLY * this.#pauseMs()
    ) {
      this.#ask();
    }
    if (renewed) {
      this.#isSilent = false;
      this.#watchProofs();
      this.#wake(true);
    }
  }

  #wake(proved: boolean): void {
    for (const wake of this.#waiting) {
      wake(proved);
    }
  }

  /** Notes when no proof has come for a while, and lets nobody wait any longer. */
  #watchProofs(ms = SILENT_MS): void {
    this.#watch?.();
    this.#watch = afterLoopTime(this.#options.timers, ms, () => {
      this.#isSilent = true;
      this.#wake(false);
    });
  }

  /** Draws a nonce for the next hub that brings proofs, or for each while a request waits. Plans the one after it. */
  #ask(): void {
    let askedAt: number | undefined;
    for (let tries = this.#links.length; tries > 0; tries -= 1) {
      const at = this.#links[this.#turn]?.ask();
      this.#turn = (this.#turn + 1) % this.#links.length;
      askedAt ??= at;
      if (askedAt !== undefined && this.#renewal === undefined) {
        break;
      }
    }
    this.#askedAt = askedAt ?? this.#options.timers.monotonic();
    this.#plan();
  }

  /** Plans a nonce in case no proof comes first. */
  #plan(): void {
    this.#options.timers.cancel(this.#next);
    if (!this.#stopped) {
      this.#next = this.#options.timers.after(this.#pauseMs(), () => this.#ask()).unref();
    }
  }

  /** Returns the pause between two nonces, in milliseconds: the shortest while a request waits. */
  #pauseMs(): number {
    if (this.#renewal !== undefined) {
      return PAUSE_MIN_MS;
    }
    let slowest = 0;
    for (const { connected, latencyMs } of this.#links) {
      slowest = connected && latencyMs > slowest ? latencyMs : slowest;
    }
    return Math.min(Math.max((this.#options.leaseMs - slowest) * PAUSE_SHARE, PAUSE_MIN_MS), PAUSE_MAX_MS);
  }

  /** Acknowledges what is applied: at once, but many in a row together. */
  #acknowledge(): void {
    const { applied: sequence } = this.view;
    if (sequence === this.#acknowledged || this.#acknowledging !== undefined) {
      return;
    }
    this.#acknowledging = this.#options.timers
      .after(ACKNOWLEDGE_EVERY_MS, () => {
        this.#acknowledging = undefined;
        this.#acknowledge();
      })
      .unref();
    this.#acknowledged = sequence;
    for (const link of this.#links) {
      link.send({ type: "applied", lockKey: this.#options.identity.lockKey, sequence, sinceMs: 0 });
    }
  }

  /** Resolves with whether a proof comes, or with false once no hub brings any. */
  async #nextProof(): Promise<boolean> {
    return await new Promise<boolean>((resolve) => {
      const wake = (proved: boolean): void => {
        this.#waiting.delete(wake);
        resolve(proved);
      };
      this.#waiting.add(wake);
    });
  }
}
