/**
 * Follows the revocations through hubs (decision 32). No hub is trusted: the lease counts from when this process drew a
 * nonce that the primary has authenticated since. With two hubs, the better lease counts. Network, time and randomness
 * are arguments.
 */
import { hash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { FollowerRow } from "../database/repositories/tokens/revocations.ts";
import type { Clock } from "../domain/clock.ts";
import type { RandomBytes } from "../domain/ids.ts";
import type { Logger } from "../observability/logger.ts";
import { afterLoopTime } from "../runtime/loop-time.ts";
import { RevocationChain } from "./chain.ts";
import {
  type HubConnection,
  HUB_PROTOCOL,
  type OpenHubConnection,
  readReply,
  type Reply,
  type Request,
} from "./hub-messages.ts";
import type { Monotonic } from "./lease.ts";
import { rootOf } from "./nonce-tree.ts";
import {
  type Attestation,
  type CheckCode,
  leaseStatement,
  NONCE_BYTES,
  type Proof,
  revocationStatement,
  snapshotStatement,
} from "./proof.ts";
import { processId } from "./receipt.ts";
import { type Question, RevocationView } from "./view.ts";

/** A nonce follows each proof. If no proof comes, for instance because a packet was lost, it follows after this time. */
const NONCE_EVERY_MS = 40;
/** Nonces of one hub that may wait for their proof. */
const NONCES_MAX = 64;
const RECONNECT_FIRST_MS = 20;
const RECONNECT_MAX_MS = 1_000;
/** Silence, in the loop's time, after which a hub counts as lost. */
const SILENT_MS = 2_000;
/** Loop time after which all hubs count as silent for a waiting request. */
const RENEWAL_SILENT_MS = 100;
/** Longest wait for a current proof, in milliseconds. */
const RENEWAL_MOST_MS = 5_000;
/** How long a start waits for the first proof, in milliseconds. */
const START_MOST_MS = 3_000;
const SWEEP_EVERY_MS = 60_000;
/** Maximum number of chunks of a snapshot: 256 MiB of text. */
const CHUNKS_MAX = 1_024;
/** Invalid messages after which a connection is given up. */
const FAULTS_MAX = 8;

export interface HubFollowerOptions {
  readonly hubs: readonly string[];
  readonly open: OpenHubConnection;
  readonly checkCode: CheckCode;
  readonly identity: Omit<FollowerRow, "leaseMs">;
  readonly leaseMs: number;
  /** Called with each new text of the verification keys, after it has been authenticated. */
  readonly onKeys: (text: string) => void;
  /** Called with the primary's clock, in Unix milliseconds, and when the nonce was drawn and the proof read. */
  readonly onTime?: ((primaryMs: number, sentAt: number, readAt: number) => void) | undefined;
  readonly clock: Clock;
  readonly monotonic: Monotonic;
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
}

/** A snapshot whose lines are arriving. */
interface Arriving {
  readonly head: Attestation;
  readonly texts: string[];
  left: number;
}

/** What the links to all hubs share. */
interface Shared {
  readonly options: HubFollowerOptions;
  readonly view: RevocationView;
  readonly chain: RevocationChain;
  keysDigest: string | undefined;
  wantedKeys: string | undefined;
  onProof: () => void;
  applied(): void;
}

/** The connection to one hub. */
class HubLink {
  readonly #shared: Shared;
  readonly #hub: string;
  readonly #questions = new Map<string, Question>();
  #connection: HubConnection | undefined;
  #arriving: Arriving | undefined;
  /** What was requested; `lines-taken` if the lines came, but no authenticated state has been compared with them yet. */
  #requested: "lines" | "lines-taken" | "snapshot" | undefined;
  #reconnectMs = RECONNECT_FIRST_MS;
  #reconnecting: NodeJS.Timeout | undefined;
  #cancelSilence: (() => void) | undefined;
  #sentAt = 0;
  #faults = 0;
  #stopped = false;

  constructor(shared: Shared, hub: string) {
    this.#shared = shared;
    this.#hub = hub;
  }

  get connected(): boolean {
    return this.#connection !== undefined;
  }

  async connect(): Promise<void> {
    const { open, identity, leaseMs, log } = this.#shared.options;
    let opened: HubConnection | undefined;
    let closed = false;
    const onClose = (error?: Error): void => {
      closed = true;
      if (this.#connection === opened) {
        this.#lose(error);
      }
    };
    try {
      opened = await open(this.#hub, { onMessage: (text) => this.#read(text), onClose });
    } catch (error) {
      this.#lose(error);
      return;
    }
    if (closed || this.#stopped) {
      opened.close();
      return;
    }
    this.#connection = opened;
    this.#faults = 0;
    this.#requested = undefined;
    this.#arriving = undefined;
    this.#questions.clear();
    this.send({ type: "follow", version: HUB_PROTOCOL, follower: { ...identity, leaseMs } });
    this.#request(this.#shared.chain.state === undefined ? "snapshot" : "lines");
    this.#watch();
    this.ask();
    log.info({ hub: this.#hub, follower: processId(identity) }, "following revocations through a hub");
  }

  /** Asks for a proof, unless one was asked for within the pause. */
  askIfDue(): void {
    if (this.#shared.options.monotonic() - this.#sentAt >= NONCE_EVERY_MS) {
      this.ask();
    }
  }

  ask(): void {
    if (this.#connection === undefined) {
      return;
    }
    const { view, options } = this.#shared;
    const nonce = Buffer.from(options.randomBytes(NONCE_BYTES)).toString("base64url");
    if (this.#questions.size >= NONCES_MAX) {
      this.#questions.delete(this.#questions.keys().next().value ?? "");
    }
    const question = view.ask();
    this.#questions.set(nonce, question);
    this.#sentAt = question.sent.monotonic;
    this.send({ type: "nonce", nonce });
  }

  send(request: Request): void {
    this.#connection?.send(JSON.stringify(request));
  }

  close(): void {
    this.#stopped = true;
    clearTimeout(this.#reconnecting);
    this.#cancelSilence?.();
    this.#connection?.close();
    this.#connection = undefined;
  }

  #watch(): void {
    this.#cancelSilence?.();
    const connection = this.#connection;
    this.#cancelSilence = afterLoopTime(SILENT_MS, () => {
      connection?.close();
      if (this.#connection === connection) {
        this.#lose(new Error("the hub is silent"));
      }
    });
  }

  #lose(error: unknown): void {
    this.#connection = undefined;
    this.#cancelSilence?.();
    if (this.#stopped) {
      return;
    }
    this.#shared.options.log.warn({ err: error, hub: this.#hub }, "the connection to a hub is lost");
    clearTimeout(this.#reconnecting);
    this.#reconnecting = setTimeout(() => void this.connect(), this.#reconnectMs);
    this.#reconnectMs = Math.min(2 * this.#reconnectMs, RECONNECT_MAX_MS);
  }

  /** A message that the primary has not authenticated has no effect. A hub that sends many is left. */
  #fault(reason: string): void {
    this.#faults += 1;
    this.#shared.options.log.error({ hub: this.#hub, reason }, "a hub sent an invalid message");
    if (this.#faults >= FAULTS_MAX) {
      const connection = this.#connection;
      connection?.close();
      if (connection !== undefined) {
        this.#lose(new Error("the hub's messages are invalid"));
      }
    }
  }

  #request(what: "lines" | "snapshot"): void {
    if (this.#requested === what || this.#requested === "snapshot") {
      return;
    }
    this.#requested = what;
    if (what === "snapshot") {
      this.send({ type: "snapshot" });
    } else {
      this.send({ type: "lines", after: this.#shared.chain.state?.sequence ?? 0 });
    }
  }

  #read(text: string): void {
    const reply = readReply(text);
    if (reply === undefined) {
      this.#fault("malformed");
      return;
    }
    switch (reply.type) {
      case "line":
        this.#hear(reply);
        break;
      case "lines":
        for (const line of reply.lines) {
          this.#shared.chain.offer(line);
        }
        this.#requested = this.#requested === "lines" ? "lines-taken" : this.#requested;
        break;
      case "proof":
        this.#prove(reply);
        break;
      case "keys":
        this.#takeKeys(reply.keys);
        break;
      case "snapshot":
        this.#beginSnapshot(reply);
        break;
      case "chunk":
        this.#takeChunk(reply.text);
        break;
    }
  }

  #hear({ line, ...state }: Extract<Reply, { type: "line" }>): void {
    const { chain, options } = this.#shared;
    if (!options.checkCode(revocationStatement(state), state.codes)) {
      this.#fault("code of a revocation");
      return;
    }
    chain.offer(line);
    if (this.#attest(state) === "behind") {
      this.#request("lines");
    }
  }

  /** Takes what the state authenticates. */
  #attest(state: Attestation): "current" | "behind" | "other" {
    const { chain, view } = this.#shared;
    const { standing, taken } = chain.attest(state);
    if (taken.length > 0) {
      view.take(state, taken);
      this.#shared.applied();
    }
    return standing;
  }

  #prove(proof: Extract<Reply, { type: "proof" }>): void {
    const { options, view, chain } = this.#shared;
    const question = this.#questions.get(proof.nonce);
    if (question === undefined) {
      // Repeated, or given up.
      return;
    }
    this.#questions.delete(proof.nonce);
    const root = rootOf(Buffer.from(proof.nonce, "base64url"), proof.trees);
    if (root === undefined || !options.checkCode(leaseStatement(proof, root.toString("hex")), proof.codes)) {
      this.#fault("code of a proof");
      return;
    }
    this.#reconnectMs = RECONNECT_FIRST_MS;
    this.#watch();
    this.ask();
    options.onTime?.(proof.atUs / 1_000, question.sent.monotonic, options.monotonic());
    const standing = this.#attest(proof);
    if (standing === "behind") {
      // If the lines lead elsewhere, everything is needed.
      this.#request(this.#requested === "lines-taken" || chain.state === undefined ? "snapshot" : "lines");
      return;
    }
    if (standing === "other" || proof.sequence < question.known.sequence) {
      view.drop();
      options.log.error(
        { hub: this.#hub, sequence: proof.sequence, known: question.known.sequence },
        "the database lacks revocations that are known here; they are kept, and everything is read again",
      );
      this.#request("snapshot");
      return;
    }
    this.#requested = undefined;
    if (this.#knowsKeys(proof)) {
      view.learn(question, { epoch: proof.epoch, seq: proof.sequence, standby: false, revocations: [] });
      this.#shared.onProof();
    }
  }

  #knowsKeys({ keysDigest }: Proof): boolean {
    if (this.#shared.keysDigest === keysDigest) {
      return true;
    }
    if (this.#shared.wantedKeys !== keysDigest) {
      this.#shared.wantedKeys = keysDigest;
      this.send({ type: "keys" });
    }
    return false;
  }

  #takeKeys(keys: string): void {
    const digest = hash("sha256", keys, "hex");
    if (digest === this.#shared.wantedKeys) {
      this.#shared.options.onKeys(keys);
      this.#shared.keysDigest = digest;
      this.#shared.wantedKeys = undefined;
    }
  }

  #beginSnapshot({ chunks, epoch, sequence, head, codes }: Extract<Reply, { type: "snapshot" }>): void {
    if (this.#requested !== "snapshot" || chunks < 0 || chunks > CHUNKS_MAX) {
      this.#fault("unrequested or oversized snapshot");
      return;
    }
    this.#arriving = { head: { epoch, sequence, head, codes }, texts: [], left: chunks };
    this.#endSnapshot(this.#arriving);
  }

  #takeChunk(text: string): void {
    if (this.#arriving === undefined) {
      return;
    }
    this.#arriving.texts.push(text);
    this.#arriving.left -= 1;
    this.#endSnapshot(this.#arriving);
  }

  #endSnapshot({ head, texts, left }: Arriving): void {
    if (left > 0) {
      return;
    }
    this.#arriving = undefined;
    this.#requested = undefined;
    const { chain, view, options } = this.#shared;
    const lines = texts.join("");
    if (!options.checkCode(snapshotStatement({ ...head, lines }), head.codes)) {
      this.#fault("code of a snapshot");
      return;
    }
    chain.begin(head);
    view.take(head, chain.readAll(lines), true);
    this.#shared.applied();
  }
}

/** Follows the revocations through hubs. */
export class HubFollower {
  readonly view: RevocationView;
  readonly #options: HubFollowerOptions;
  readonly #shared: Shared;
  readonly #links: readonly HubLink[];
  readonly #waiting = new Set<() => void>();
  #asks: NodeJS.Timeout | undefined;
  #sweeps: NodeJS.Timeout | undefined;
  #renewal: Promise<boolean> | undefined;
  #acknowledged = 0;

  constructor(options: HubFollowerOptions) {
    this.#options = options;
    this.view = new RevocationView(options);
    this.#shared = {
      options,
      view: this.view,
      chain: new RevocationChain(),
      keysDigest: undefined,
      wantedKeys: undefined,
      onProof: () => this.#wake(),
      applied: () => this.#acknowledge(),
    };
    this.#links = options.hubs.map((hub) => new HubLink(this.#shared, hub));
  }

  /** Starts to follow. Resolves after the first proof, or after three seconds without one. */
  async start(): Promise<void> {
    this.#asks = setInterval(() => {
      for (const link of this.#links) {
        link.askIfDue();
      }
    }, NONCE_EVERY_MS).unref();
    this.#sweeps = setInterval(() => this.view.prune(), SWEEP_EVERY_MS).unref();
    const started = this.#nextProof(START_MOST_MS);
    await Promise.all(this.#links.map(async (link) => await link.connect()));
    await started;
  }

  /** Waits until tokens can be admitted. @returns false if no hub brings a proof */
  async renew(): Promise<boolean> {
    this.#renewal ??= this.#untilCurrent().finally(() => {
      this.#renewal = undefined;
    });
    return await this.#renewal;
  }

  /** Resolves if tokens can be admitted. Rejects if the knowledge is too old and cannot be renewed. */
  async requireCurrent(): Promise<void> {
    if (!this.view.current && !(await this.renew())) {
      throw new Error("revocations are not followed: no hub brings a proof");
    }
  }

  async stop(): Promise<void> {
    clearInterval(this.#asks);
    clearInterval(this.#sweeps);
    for (const link of this.#links) {
      link.send({ type: "gone", lockKey: this.#options.identity.lockKey, stopped: true });
    }
    await delay(0);
    for (const link of this.#links) {
      link.close();
    }
  }

  #wake(): void {
    if (this.#waiting.size > 0) {
      for (const wake of this.#waiting) {
        wake();
      }
    }
  }

  #acknowledge(): void {
    const { applied: sequence } = this.view;
    if (sequence === this.#acknowledged) {
      return;
    }
    this.#acknowledged = sequence;
    for (const link of this.#links) {
      link.send({ type: "applied", lockKey: this.#options.identity.lockKey, sequence, sinceMs: 0 });
    }
  }

  /** Resolves with whether a proof comes within the loop's time. */
  async #nextProof(ms: number): Promise<boolean> {
    return await new Promise<boolean>((resolve) => {
      const settle = (proved: boolean): void => {
        this.#waiting.delete(wake);
        cancel();
        resolve(proved);
      };
      const wake = (): void => settle(true);
      const cancel = afterLoopTime(ms, () => settle(false));
      this.#waiting.add(wake);
    });
  }

  async #untilCurrent(): Promise<boolean> {
    const { monotonic } = this.#options;
    const giveUpAt = monotonic() + RENEWAL_MOST_MS;
    while (!this.view.current) {
      if (!(await this.#nextProof(RENEWAL_SILENT_MS)) || monotonic() > giveUpAt) {
        return this.view.current;
      }
    }
    return true;
  }
}
