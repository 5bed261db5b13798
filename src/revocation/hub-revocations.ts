/**
 * What a hub knows of the revocations: the last lines, a snapshot, the verification keys, and the certificates that are
 * revoked. It proves none of it.
 */
import type { Timers } from "#domain/clock.ts";
import type { Logger } from "#observability/logger.ts";
import { certificatesIn } from "./chain.ts";
import type { HubAnswer, Upstream } from "./hub-questions.ts";
import { nextHead, type SequenceState, type Snapshot } from "./proof.ts";

/** Lines that are kept, at least; at most twice as many. */
const TAIL_MAX = 20_000;
/** Lines in one message. */
const LINES_AT_ONCE = 5_000;
/** Pause before the revoked certificates are read again after a failure. */
const READ_AGAIN_MS = 5_000;

export class HubLines {
  readonly #lines = new Map<number, string>();
  /** The last state that the primary has told. */
  #state: SequenceState | undefined;

  /**
   * Whether a state that the primary tells follows from its last one by the lines between them. Otherwise the database was
   * restored or tampered with, or a line was forged on the way.
   */
  lead(state: SequenceState): boolean {
    const known = this.#state;
    if (known !== undefined && state.sequence < known.sequence) {
      return true; // Answered before.
    }
    let head = known?.head;
    for (let next = (known?.sequence ?? 0) + 1; next <= state.sequence && head !== undefined; next += 1) {
      const line = this.#lines.get(next);
      head = line === undefined ? undefined : nextHead(head, line);
    }
    this.#state = state;
    return head === undefined || head === state.head;
  }

  /** Keeps a line. @returns its number; undefined if it has none */
  keep(line: string): number | undefined {
    const sequence = Number(line.slice(0, line.indexOf(":")));
    if (!Number.isSafeInteger(sequence)) {
      return undefined;
    }
    this.#lines.set(sequence, line);
    return sequence;
  }

  /** Returns the known lines after a number, up to another, in parts for a message each. */
  between(after: number, sequence: number): string[][] {
    const lines: string[] = [];
    for (let next = Math.max(after, sequence - 2 * TAIL_MAX) + 1; next <= sequence; next += 1) {
      const line = this.#lines.get(next);
      if (line !== undefined) {
        lines.push(line);
      }
    }
    const parts: string[][] = [];
    for (let at = 0; at < lines.length; at += LINES_AT_ONCE) {
      parts.push(lines.slice(at, at + LINES_AT_ONCE));
    }
    return parts;
  }

  /** Drops old lines if there are too many. A snapshot from before then no longer leads to the rest. */
  shorten(sequence: number): boolean {
    if (this.#lines.size <= 2 * TAIL_MAX) {
      return false;
    }
    for (const known of this.#lines.keys()) {
      if (known <= sequence - TAIL_MAX) {
        this.#lines.delete(known);
      }
    }
    return true;
  }

  clear(): void {
    this.#lines.clear();
    this.#state = undefined;
  }
}

export interface HubRevocationsOptions {
  readonly upstream: Pick<Upstream, "snapshot">;
  readonly timers: Timers;
  readonly log: Logger;
}

/** The text of the verification keys, and its digest. */
interface HubKeys {
  readonly text: string;
  readonly digest: string;
}

export class HubRevocations {
  readonly #options: HubRevocationsOptions;
  readonly #onCertificates: () => void;
  readonly lines = new HubLines();
  /** SHA-256 of revoked certificates, in hexadecimal. */
  readonly #revoked = new Set<string>();
  #knowsRevoked = false;
  /** When they are read, unless they are known. */
  #readsRevokedAt = Number.NEGATIVE_INFINITY;
  #snapshot: Promise<Snapshot> | undefined;
  #epoch: string | undefined;
  #sequence = 0;
  #keys: HubKeys | undefined;

  /** @param onCertificates called when certificates were revoked */
  constructor(options: HubRevocationsOptions, onCertificates: () => void) {
    this.#options = options;
    this.#onCertificates = onCertificates;
  }

  /** Number of the last revocation that was relayed. */
  get sequence(): number {
    return this.#sequence;
  }

  /** The verification keys, if they are known. */
  get keys(): HubKeys | undefined {
    return this.#keys;
  }

  /** Whether a certificate is revoked, by its SHA-256 in hexadecimal. */
  deniesCertificate(thumbprint: string | undefined): boolean {
    return thumbprint !== undefined && this.#revoked.has(thumbprint);
  }

  /** Keeps lines. @returns whether some are new */
  keep(lines: readonly string[]): boolean {
    const before = this.#sequence;
    for (const line of lines) {
      const sequence = this.lines.keep(line);
      if (sequence !== undefined) {
        this.#denyCertificates(line);
        this.#sequence = Math.max(this.#sequence, sequence);
      }
    }
    if (this.lines.shorten(this.#sequence)) {
      this.#snapshot = undefined;
    }
    return this.#sequence > before;
  }

  /** Takes an answer from above. @returns whether there are new revocations */
  learn({ proof, lines, keys }: HubAnswer, after: number): boolean {
    if (proof.epoch !== this.#epoch || proof.sequence < after) {
      // Another database, or an older state of this one.
      this.#begin(proof);
    }
    const before = this.#sequence;
    this.keep(lines);
    if (!this.lines.lead(proof)) {
      this.#options.log.warn(
        { sequence: proof.sequence },
        "the revocations lead elsewhere; all are read again",
      );
      this.#begin(proof);
    }
    if (keys !== undefined) {
      this.#keys = { text: keys, digest: proof.keysDigest };
    }
    return this.#sequence > before;
  }

  /** Reads the certificates that were revoked before this hub started, unless that is done. */
  async readRevoked(): Promise<void> {
    const now = this.#options.timers.monotonic();
    if (!this.#knowsRevoked && this.#snapshot === undefined && now >= this.#readsRevokedAt) {
      this.#readsRevokedAt = now + READ_AGAIN_MS;
      await this.snapshot();
    }
  }

  /** Reads all live revocations, once for all who ask. */
  async snapshot(): Promise<Snapshot> {
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

  /** Begins again, at a state that nothing known leads to. */
  #begin({ epoch, sequence }: SequenceState): void {
    this.lines.clear();
    this.#snapshot = undefined;
    this.#epoch = epoch;
    this.#sequence = sequence;
  }

  #denyCertificates(lines: string): void {
    for (const thumbprint of certificatesIn(lines)) {
      this.#revoked.add(thumbprint);
    }
    this.#onCertificates();
  }
}
