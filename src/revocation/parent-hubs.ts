/** Hubs above a hub: a region's hub may follow hubs of another region instead of the primary (decision 33). */
import type { FollowerRow } from "#database/repositories/tokens/revocations.ts";
import type { Logger } from "#observability/logger.ts";
import type { KeptConnection } from "#runtime/kept-connection.ts";
import { afterLoopTime } from "#runtime/loop-time.ts";
import type { FollowerNews } from "./follower-reports.ts";
import type { HubAnswer, Upstream } from "./hub-questions.ts";
import {
  HUB_PROTOCOL,
  type HubConnection,
  type OpenHubConnection,
  readReply,
  type Reply,
  type Request,
  SnapshotReader,
} from "./hub-messages.ts";
import { keepHubConnection } from "./kept-hub.ts";
import type { Attestation, Snapshot } from "./proof.ts";
import type { Timer, Timers } from "#domain/clock.ts";

/** How long an answer may take, in the loop's time. */
const ANSWER_MS = 2_000;
/** The same for the first part of a snapshot, which the parent may first have to read. */
const SNAPSHOT_MS = 20_000;
const REVOKED = "the parent hub's certificate is revoked";
/** Unanswered questions at once. */
const QUESTIONS_MAX = 64;

export interface ParentHubsOptions {
  readonly hubs: readonly string[];
  readonly open: OpenHubConnection;
  /** This hub itself. */
  readonly identity: FollowerRow;
  /** Called with each revocation that a parent announces. */
  readonly onLine: (line: string, state: Attestation) => void;
  /** Whether a certificate is revoked, by its SHA-256 in hexadecimal. */
  readonly isDenied: (thumbprint: string) => boolean;
  readonly timers: Timers;
  readonly log: Logger;
}

interface Question {
  readonly knownKeys: string | undefined;
  resolve(answer: HubAnswer): void;
  reject(error: Error): void;
  cancel(): void;
}

/** The connection to one parent. */
class Parent {
  readonly #options: ParentHubsOptions;
  readonly #questions = new Map<string, Question>();
  readonly #kept: KeptConnection<HubConnection>;
  #followers = new Map<number, FollowerNews>();
  #lines: string[] = [];
  #after = 0;
  #keys: string | undefined;
  /** Proofs that wait for the text of the keys. */
  #waiting: { readonly proof: Extract<Reply, { type: "proof" }>; readonly question: Question }[] = [];
  readonly #reader = new SnapshotReader();
  #texts: string[] = [];
  #silence: Timer | undefined;
  #snapshots: { resolve(snapshot: Snapshot): void; reject(error: Error): void }[] = [];

  constructor(options: ParentHubsOptions, hub: string) {
    this.#options = options;
    this.#kept = keepHubConnection(hub, {
      ...options,
      onMessage: (text) => this.#read(text),
      onOpen: (connection) => this.#begin(connection),
      onLost: (error) => this.#fail(error as Error),
    });
  }

  get connected(): boolean {
    return this.#kept.connection !== undefined;
  }

  get underWay(): number {
    return this.#questions.size;
  }

  async connect(): Promise<void> {
    await this.#kept.start();
  }

  #begin(connection: HubConnection): void {
    // What the connection before was asked for does not come over this one.
    this.#fail(new Error("another connection to the parent hub is in use"));
    if (this.#isRevoked(connection)) {
      this.#kept.leave(new Error(REVOKED));
      return;
    }
    this.send({ type: "lines", after: this.#after });
    this.report([...this.#followers.values()]);
  }

  send(request: Request): void {
    this.#kept.connection?.send(JSON.stringify(request));
  }

  async ask(nonce: Buffer, known: Parameters<Upstream["ask"]>[1]): Promise<HubAnswer> {
    const key = nonce.toString("base64url");
    this.#after = Math.max(this.#after, known.after);
    return await new Promise<HubAnswer>((resolve, reject) => {
      const cancel = afterLoopTime(this.#options.timers, ANSWER_MS, () => {
        this.#questions.delete(key);
        reject(new Error("the parent hub brings no proof"));
        this.#kept.replace();
      });
      this.#questions.set(key, { knownKeys: known.keysDigest, resolve, reject, cancel });
      this.send({ type: "nonce", nonce: key });
      this.#kept.expect();
    });
  }

  async snapshot(): Promise<Snapshot> {
    return await new Promise<Snapshot>((resolve, reject) => {
      this.#snapshots.push({ resolve, reject });
      if (this.#snapshots.length === 1) {
        this.send({ type: "snapshot" });
        this.#limitSilence(SNAPSHOT_MS);
      }
    });
  }

  /** Gives the snapshot up if its next part does not come. The processes behind this hub request it again. */
  #limitSilence(ms: number): void {
    this.#options.timers.cancel(this.#silence);
    this.#silence = this.#options.timers.after(ms, () => {
      const error = new Error("the parent hub brings no snapshot");
      this.#snapshots.splice(0).forEach((waiting) => waiting.reject(error));
    });
  }

  report(followers: readonly FollowerNews[]): void {
    const now = this.#options.timers.monotonic();
    for (const { sequence, at, ...follower } of followers) {
      this.send({ type: "follow", version: HUB_PROTOCOL, follower });
      this.#followers.set(follower.lockKey, { ...follower, sequence, at });
      if (sequence > 0) {
        const sinceMs = Math.round(now - at);
        this.send({ type: "applied", lockKey: follower.lockKey, sequence, sinceMs });
      }
    }
  }

  lose(lockKeys: readonly number[], stopped: boolean): void {
    for (const lockKey of lockKeys) {
      this.#followers.delete(lockKey);
      this.send({ type: "gone", lockKey, stopped });
    }
  }

  close(): void {
    this.#fail(new Error("this hub stops"));
    this.#kept.stop();
  }

  #isRevoked(connection: HubConnection | undefined): boolean {
    return connection?.certificate !== undefined && this.#options.isDenied(connection.certificate);
  }

  #fail(error: Error): void {
    for (const question of this.#questions.values()) {
      question.cancel();
      question.reject(error);
    }
    this.#questions.clear();
    for (const { question } of this.#waiting) {
      question.reject(error);
    }
    this.#waiting = [];
    this.#options.timers.cancel(this.#silence);
    for (const snapshot of this.#snapshots.splice(0)) {
      snapshot.reject(error);
    }
  }

  #read(text: string): void {
    const reply = readReply(text);
    switch (reply?.type) {
      case "line":
        this.#options.onLine(reply.line, reply);
        break;
      case "lines":
        this.#lines.push(...reply.lines);
        break;
      case "proof":
        this.#answer(reply);
        break;
      case "keys":
        this.#keys = reply.keys;
        for (const { proof, question } of this.#waiting.splice(0)) {
          this.#settle(proof, question);
        }
        break;
      case "snapshot":
      case "chunk":
        this.#readSnapshot(reply);
        break;
      case undefined:
        this.#kept.leave(new Error("the parent hub's messages are invalid"));
        break;
    }
  }

  #answer(proof: Extract<Reply, { type: "proof" }>): void {
    if (this.#isRevoked(this.#kept.connection)) {
      this.#kept.leave(new Error(REVOKED));
      return;
    }
    const question = this.#questions.get(proof.nonce);
    if (question === undefined) {
      return;
    }
    this.#questions.delete(proof.nonce);
    question.cancel();
    this.#kept.proved();
    if (question.knownKeys === proof.keysDigest) {
      this.#settle(proof, question);
      return;
    }
    if (this.#waiting.length >= QUESTIONS_MAX) {
      question.reject(new Error("the parent hub sends no keys"));
      return;
    }
    this.#waiting.push({ proof, question });
    if (this.#waiting.length === 1) {
      this.send({ type: "keys" });
    }
  }

  #settle(proof: Extract<Reply, { type: "proof" }>, question: Question): void {
    const { type: _type, nonce: _nonce, trees, ...rest } = proof;
    const keys = question.knownKeys === proof.keysDigest ? undefined : this.#keys;
    question.resolve({ proof: rest, trees, lines: this.#lines.splice(0), keys });
  }

  #readSnapshot(reply: Extract<Reply, { type: "snapshot" | "chunk" }>): void {
    const head = this.#reader.read(reply);
    if (reply.type === "snapshot") {
      this.#texts = [];
    } else {
      this.#texts.push(reply.text);
    }
    if (head === "malformed") {
      this.#kept.leave(new Error("the parent hub's messages are invalid"));
    } else if (head === "reading") {
      this.#limitSilence(ANSWER_MS);
      if (reply.type === "chunk") {
        this.send({ type: "more" });
      }
    } else {
      this.#options.timers.cancel(this.#silence);
      const snapshot = { ...head, lines: this.#texts.join("") };
      this.#texts = [];
      this.#snapshots.splice(0).forEach((waiting) => waiting.resolve(snapshot));
    }
  }
}

/** Follows parent hubs: asks the connected one with the fewest unanswered questions. */
export class ParentHubs implements Upstream {
  readonly #options: ParentHubsOptions;
  readonly #parents: readonly Parent[];

  constructor(options: ParentHubsOptions) {
    this.#options = options;
    this.#parents = options.hubs.map((hub) => new Parent(options, hub));
  }

  /** Resolves after the first attempt to connect, even if it failed. */
  async start(): Promise<void> {
    this.relayed(0);
    await Promise.all(this.#parents.map(async (parent) => await parent.connect()));
  }

  async stop(): Promise<void> {
    for (const parent of this.#parents) {
      parent.close();
    }
    await Promise.resolve();
  }

  async ask(nonce: Buffer, known: Parameters<Upstream["ask"]>[1]): Promise<HubAnswer> {
    return await this.#best().ask(nonce, known);
  }

  async snapshot(): Promise<Snapshot> {
    return await this.#best().snapshot();
  }

  relayed(sequence: number): void {
    const { identity, timers } = this.#options;
    for (const parent of this.#parents) {
      parent.report([{ ...identity, sequence, at: timers.monotonic() }]);
    }
  }

  async report(followers: readonly FollowerNews[]): Promise<void> {
    for (const parent of this.#parents) {
      parent.report(followers);
    }
    await Promise.resolve();
  }

  async reportLost(lockKeys: readonly number[], stopped: boolean): Promise<void> {
    for (const parent of this.#parents) {
      parent.lose(lockKeys, stopped);
    }
    await Promise.resolve();
  }

  #best(): Parent {
    const connected = this.#parents.filter((parent) => parent.connected);
    const [first] = connected.toSorted((left, right) => left.underWay - right.underWay);
    if (first === undefined) {
      throw new Error("there is no connection to a parent hub");
    }
    return first;
  }
}
