/**
 * What a process learns from one hub, and decides of it: pure, without a connection or timers (decision 33). Nothing that
 * a hub says counts unless the primary has authenticated it.
 */
import { createHash, hash } from "node:crypto";
import type { RandomBytes } from "#domain/ids.ts";
import { readLine, RevocationChain, WaitingLines } from "./chain.ts";
import { type Reply, type Request, SnapshotReader } from "./hub-messages.ts";
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
import { type Question, RevocationView, type StagedRevocations, type ViewOptions } from "./view.ts";

/** Nonces of one hub that may wait for their proof. */
const NONCES_MAX = 64;
/** Proofs that a hub may bring without the lines that were requested. */
const BEHIND_MAX = 50;
/** The same while it has a snapshot to bring, which it may first have to read from afar. */
const BEHIND_SNAPSHOT_MAX = 1_000;
/** Proofs for which a conversation waits for the snapshot of another one. */
const WAITS_MAX = 40;
/** Such proofs after which the lines or the snapshot are requested again. */
const BEHIND_AGAIN = 10;
/** Maximum number of revocations in a snapshot. */
const SNAPSHOT_MAX = 4_000_000;

export interface KnowledgeOptions extends ViewOptions {
  readonly checkCode: CheckCode;
  readonly randomBytes: RandomBytes;
  /** Called with each new text of the verification keys, after it has been authenticated. */
  readonly onKeys: (text: string) => void;
  /** Called after revocations have been applied. */
  readonly onApplied: () => void;
}

/** What a process knows from all its hubs together. */
export class ProvenKnowledge {
  readonly view: RevocationView;
  readonly chain = new RevocationChain();
  readonly options: KnowledgeOptions;
  /** Digest of the verification keys that are known. */
  keysDigest: string | undefined;
  /** The conversation that reads a snapshot. The others wait for it, because a large one takes long. */
  reader: HubSession | undefined;

  constructor(options: KnowledgeOptions) {
    this.options = options;
    this.view = new RevocationView(options);
  }
}

/** What became of a message. */
export type Effect =
  /** The lease was renewed, by a proof that took so long from when its nonce was drawn, in milliseconds. */
  | { readonly renewedAfterMs: number }
  /** A proof of the primary, which renewed nothing yet. */
  | "proved"
  /** The database lacks what is known here. */
  | "restored"
  | "none"
  /** The message is not what an honest hub sends: the reason. */
  | { readonly fault: string };

/** A snapshot that is being read: each chunk is taken apart when it arrives, so that none takes long. */
class SnapshotLines {
  readonly staged: StagedRevocations;
  readonly #hash = createHash("sha256");
  /** The beginning of a line that the next chunk continues. */
  #rest = "";

  constructor(staged: StagedRevocations) {
    this.staged = staged;
  }

  addChunk(text: string): void {
    this.#hash.update(text);
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      this.#add(line);
    }
  }

  /** Ends the last line. @returns the SHA-256 of all lines, in hexadecimal */
  end(): string {
    this.#add(this.#rest);
    return this.#hash.digest("hex");
  }

  #add(line: string): void {
    const revocation = readLine(line);
    if (revocation !== undefined) {
      this.staged.add(revocation);
    }
  }
}

/** The conversation over one connection to a hub. */
export class HubSession {
  readonly #knowledge: ProvenKnowledge;
  readonly #send: (request: Request) => void;
  readonly #questions = new Map<string, Question>();
  readonly #waiting = new WaitingLines();
  #snapshot = new SnapshotReader();
  /** How often the chain had begun when the snapshot was requested. */
  #begunBefore = 0;
  /** Proofs since this conversation waits for the snapshot of another one; undefined if it does not. */
  #waits: number | undefined;
  #lines: SnapshotLines | undefined;
  /** What was requested; `lines-taken` if the lines came, but no authenticated state has been compared with them yet. */
  #requested: "lines" | "lines-taken" | "snapshot" | undefined;
  #wantedKeys: string | undefined;
  /** Proofs in a row that could not be used, because lines are missing. */
  #behind = 0;

  constructor(knowledge: ProvenKnowledge, send: (request: Request) => void) {
    this.#knowledge = knowledge;
    this.#send = send;
  }

  /** Requests what is missing. First message after the introduction. */
  begin(): void {
    this.#request(this.#knowledge.chain.state === undefined ? "snapshot" : "lines");
    this.ask();
  }

  /** Draws a nonce and asks for its proof. @returns when, by the monotonic clock */
  ask(): number {
    const { view, options } = this.#knowledge;
    const nonce = Buffer.from(options.randomBytes(NONCE_BYTES)).toString("base64url");
    if (this.#questions.size >= NONCES_MAX) {
      this.#questions.delete(this.#questions.keys().next().value ?? "");
    }
    // Before the nonce leaves: the lease counts from here.
    const question = view.ask();
    this.#questions.set(nonce, question);
    this.#send({ type: "nonce", nonce });
    return question.sent.monotonic;
  }

  /** Whether a message of this type was requested. Only these may be long. */
  awaits(type: Reply["type"]): boolean {
    return type === "lines"
      ? this.#requested === "lines"
      : (type === "snapshot" || type === "chunk") && this.#requested === "snapshot";
  }

  /** Takes a message of the hub. */
  read(reply: Reply): Effect {
    switch (reply.type) {
      case "line":
        return this.#hear(reply);
      case "lines":
        return this.#takeLines(reply.lines);
      case "proof":
        return this.#prove(reply);
      case "keys":
        return this.#takeKeys(reply.keys);
      case "snapshot":
      case "chunk":
        return this.#readSnapshot(reply);
      default:
        return reply satisfies never;
    }
  }

  #request(what: "lines" | "snapshot", again = false): void {
    if (!again && (this.#requested === what || this.#requested === "snapshot")) {
      return;
    }
    this.#requested = what;
    if (what === "snapshot") {
      this.#waits = undefined;
      this.#begunBefore = this.#knowledge.chain.begun;
      this.#send({ type: "snapshot" });
    } else {
      this.#send({ type: "lines", after: this.#knowledge.chain.state?.sequence ?? 0 });
    }
  }

  #hear({ line, ...state }: Extract<Reply, { type: "line" }>): Effect {
    if (!this.#knowledge.options.checkCode(revocationStatement(state), state.codes)) {
      return { fault: "code of a revocation" };
    }
    this.#waiting.offer(line);
    if (this.#attest(state) === "behind") {
      this.#request("lines");
    }
    return "none";
  }

  #takeLines(lines: readonly string[]): Effect {
    for (const line of lines) {
      this.#waiting.offer(line);
    }
    this.#requested = this.#requested === "lines" ? "lines-taken" : this.#requested;
    return "none";
  }

  /** Applies what an authenticated state covers. */
  #attest(state: Attestation): "current" | "behind" | "other" {
    const { chain, view, options } = this.#knowledge;
    const { standing, taken } = chain.attest(state, this.#waiting);
    // Another hub may have brought them first.
    this.#waiting.forget(chain.state?.sequence ?? 0);
    if (taken.length > 0) {
      view.applyProven(state, taken);
      options.onApplied();
    }
    return standing;
  }

  #prove(proof: Extract<Reply, { type: "proof" }>): Effect {
    const { options, view } = this.#knowledge;
    const question = this.#questions.get(proof.nonce);
    if (question === undefined) {
      // Repeated, or given up.
      return "none";
    }
    this.#questions.delete(proof.nonce);
    this.#stopWaiting();
    const root = rootOf(Buffer.from(proof.nonce, "base64url"), proof.trees);
    if (root === undefined || !options.checkCode(leaseStatement(proof, root.toString("hex")), proof.codes)) {
      return { fault: "code of a proof" };
    }
    const standing = this.#attest(proof);
    this.#behind = standing === "behind" ? this.#behind + 1 : 0;
    const nowMs = proof.atUs / 1_000;
    if (standing === "behind") {
      // Something must be known to start with, though it may be another primary's.
      if (!view.knowsTime) {
        view.applyTime(nowMs, question.sent);
      }
      return this.#catchUp();
    }
    if (standing === "other" || proof.sequence < question.known.sequence) {
      view.drop();
      this.#request("snapshot");
      return "restored";
    }
    if (this.#requested !== "snapshot") {
      this.#requested = undefined;
    }
    const counts = view.applyTime(nowMs, question.sent);
    if (!this.#knowsKeys(proof)) {
      return "proved";
    }
    // The lease of an earlier proof would last with the time of a later one.
    if (counts) {
      view.applyAnswer(question, {
        epoch: proof.epoch,
        seq: proof.sequence,
        standby: false,
        nowMs,
        revocations: [],
      });
    }
    return { renewedAfterMs: options.timers.monotonic() - question.sent.monotonic };
  }

  /** Requests what a proof covers and is missing here. */
  #catchUp(): Effect {
    if (this.#behind > (this.#requested === "snapshot" ? BEHIND_SNAPSHOT_MAX : BEHIND_MAX)) {
      return { fault: "proofs without the revocations" };
    }
    const again = this.#behind % BEHIND_AGAIN === 0 && !this.#snapshot.isReading;
    if (again && this.#requested !== "lines-taken") {
      this.#request(this.#requested ?? "lines", true);
      return "proved";
    }
    // If the lines lead elsewhere, everything is needed.
    const whole = this.#requested === "lines-taken" || this.#knowledge.chain.state === undefined;
    this.#request(whole ? "snapshot" : "lines");
    return "proved";
  }

  #knowsKeys({ keysDigest }: Proof): boolean {
    if (this.#knowledge.keysDigest === keysDigest) {
      return true;
    }
    if (this.#wantedKeys !== keysDigest) {
      this.#wantedKeys = keysDigest;
      this.#send({ type: "keys" });
    }
    return false;
  }

  #takeKeys(keys: string): Effect {
    const digest = hash("sha256", keys, "hex");
    if (digest === this.#wantedKeys) {
      this.#knowledge.options.onKeys(keys);
      this.#knowledge.keysDigest = digest;
    }
    this.#wantedKeys = undefined;
    return "none";
  }

  /** Asks for the next chunk, unless another hub's snapshot is being read. */
  #readOn(): void {
    const { reader = this } = this.#knowledge;
    if (reader !== this) {
      this.#waits ??= 0;
      return;
    }
    this.#askForMore();
  }

  #askForMore(): void {
    this.#knowledge.reader = this;
    this.#send({ type: "more" });
  }

  /** At a proof: reads on if the other snapshot does not come. */
  #stopWaiting(): void {
    if (this.#waits !== undefined && !this.#isOvertaken()) {
      this.#waits += 1;
      if (this.#waits > WAITS_MAX) {
        this.#waits = undefined;
        this.#askForMore();
      }
    }
  }

  /** Gives the requested snapshot up if another hub has brought one. That one may lack the last lines. */
  #isOvertaken(): boolean {
    if (this.#knowledge.chain.begun === this.#begunBefore) {
      return false;
    }
    this.#waits = undefined;
    this.#requested = undefined;
    this.#lines = undefined;
    this.#snapshot = new SnapshotReader();
    this.#request("lines");
    return true;
  }

  #readSnapshot(reply: Extract<Reply, { type: "snapshot" | "chunk" }>): Effect {
    if (this.#requested !== "snapshot") {
      // Answered twice, because it was requested again.
      return "none";
    }
    const { chain, view, options } = this.#knowledge;
    if (this.#isOvertaken()) {
      return "none";
    }
    const snapshot = this.#snapshot.read(reply);
    if (reply.type === "snapshot") {
      this.#lines = new SnapshotLines(view.stageSnapshot());
    } else {
      this.#lines?.addChunk(reply.text);
    }
    const lines = this.#lines;
    if (snapshot === "malformed" || lines === undefined || lines.staged.size > SNAPSHOT_MAX) {
      this.#lines = undefined;
      return { fault: "malformed snapshot" };
    }
    if (snapshot === "reading") {
      if (reply.type === "chunk") {
        this.#behind = 0;
        this.#readOn();
      }
      return "none";
    }
    this.#requested = undefined;
    this.#lines = undefined;
    this.#knowledge.reader = undefined;
    if (!options.checkCode(snapshotStatement(snapshot, lines.end()), snapshot.codes)) {
      return { fault: "code of a snapshot" };
    }
    chain.begin(snapshot);
    this.#waiting.forget(snapshot.sequence);
    view.commitSnapshot(snapshot, lines.staged);
    options.onApplied();
    return "none";
  }
}
