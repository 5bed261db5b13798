/**
 * A hub: relays the primary's proofs to the processes of a region, so that the primary answers one question for all of
 * them (decision 33). It holds no key and decides nothing. It follows the primary or another hub. Here it takes and ends
 * the connections; each of them answers for itself (hub-child.ts).
 */
import type { Timer, Timers } from "#domain/clock.ts";
import type { Logger } from "#observability/logger.ts";
import { FollowerReports } from "./follower-reports.ts";
import { type ChildServices, HubChild } from "./hub-child.ts";
import type { HubConnection, Reply } from "./hub-messages.ts";
import { HubPeer } from "./hub-peer.ts";
import { HubQuestions, type Upstream } from "./hub-questions.ts";
import { HubRevocations } from "./hub-revocations.ts";
import type { Attestation } from "./proof.ts";

export interface HubOptions {
  readonly upstream: Upstream;
  readonly leaseMs: number;
  readonly timers: Timers;
  readonly log: Logger;
}

/** Connections of one hub. */
const CHILDREN_MAX = 2_000;
/** Silence after which a connection counts as dead, in milliseconds. A process asks at least every 200 ms. */
const SILENT_MS = 10_000;
/** Silence after which a connection gives way to another one with the same certificate, in milliseconds. */
const GIVES_WAY_MS = 3_000;
const REVOKED = "a connection to this hub was refused: its certificate is revoked";

export class Hub {
  readonly #options: HubOptions;
  readonly #shared: ChildServices;
  readonly #revocations: HubRevocations;
  readonly #questions: HubQuestions<HubChild>;
  readonly #followers: FollowerReports;
  readonly #children = new Set<HubChild>();
  /** By the certificates of their connections. */
  readonly #peers = new Map<string, HubPeer>();
  #sweep: Timer | undefined;

  constructor(options: HubOptions) {
    this.#options = options;
    this.#followers = new FollowerReports(options);
    const revocations = new HubRevocations(options, () => this.#leaveRevoked());
    this.#revocations = revocations;
    this.#questions = new HubQuestions({
      ...options,
      known: () => ({ keysDigest: revocations.keys?.digest, after: revocations.sequence }),
      onAnswer: (answer, after) => {
        if (revocations.learn(answer, after)) {
          this.#children.forEach((child) => child.bring(revocations.sequence));
          options.upstream.relayed(revocations.sequence);
        }
        revocations.readRevoked().catch(() => undefined);
      },
      onProof: (child, sequence, text) => child.prove(sequence, text),
    });
    const [questions, followers, children] = [this.#questions, this.#followers, this.#children];
    this.#shared = { revocations, questions, followers, children, timers: options.timers, log: options.log };
  }

  /** Number of the last revocation that was relayed. */
  get sequence(): number {
    return this.#revocations.sequence;
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
    return this.#revocations.deniesCertificate(thumbprint);
  }

  /** Takes a connection. @returns what to call with its messages, and at its end */
  accept(connection: HubConnection): { onMessage(text: string): void; onClose(): void } | undefined {
    if (this.#children.size >= CHILDREN_MAX) {
      return undefined;
    }
    if (this.#revocations.deniesCertificate(connection.certificate)) {
      this.#options.log.warn({}, REVOKED);
      return undefined;
    }
    const peer = this.#peerOf(connection);
    const child = new HubChild(connection, peer, this.#shared);
    this.#children.add(child);
    peer.connections.add(connection);
    return {
      onMessage: (text) => child.read(text),
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
    const isNew = this.#revocations.keep([line]);
    const text = JSON.stringify({ type: "line", line, ...state } satisfies Reply);
    this.#children.forEach((child) => child.relay(state.sequence, text));
    if (isNew) {
      this.#options.upstream.relayed(this.#revocations.sequence);
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

  #leaveRevoked(): void {
    for (const { connection } of this.#children) {
      if (this.#revocations.deniesCertificate(connection.certificate)) {
        this.#options.log.warn({}, REVOKED);
        connection.close();
      }
    }
  }
}
