/**
 * Proofs of the primary that pass through hubs, which hold no key (decision 33). A process draws a nonce. The primary
 * authenticates it together with the state of the sequence, so whatever was committed before the nonce is covered.
 */
import { createHmac, createSecretKey, hash, type KeyObject, timingSafeEqual } from "node:crypto";
import { LEASE_KEY_ID_LENGTH, leaseKeyId } from "#crypto/lease-key.ts";

/** The state of the sequence of revocations. */
export interface SequenceState {
  /** Identifies the database, as a UUID. */
  readonly epoch: string;
  /** Number of the last revocation. */
  readonly sequence: number;
  /** SHA-256 chain over the lines of all revocations, in hexadecimal. */
  readonly head: string;
}

/** A state of the sequence that the primary has authenticated. */
export interface Attestation extends SequenceState {
  /** `id=code` for each key, separated by commas. */
  readonly codes: string;
}

/** A proof that the primary answered after a nonce was drawn. */
export interface Proof extends Attestation {
  /** SHA-256 of the text of the verification keys, in hexadecimal. */
  readonly keysDigest: string;
  /** The primary's clock, in microseconds of Unix time. */
  readonly atUs: number;
}

/** The live revocations at a state of the sequence. */
export interface Snapshot extends Attestation {
  /** One line per revocation, separated by line feeds. */
  readonly lines: string;
}

/** Checks the code of a statement. Replaced in simulations. */
export type CheckCode = (statement: string, codes: string) => boolean;

/** Length of a nonce, in bytes. */
export const NONCE_BYTES = 32;

function isCode(key: KeyObject, statement: string, code: string): boolean {
  const expected = createHmac("sha256", key).update(statement).digest();
  const given = Buffer.from(code, "hex");
  return given.length === expected.length && timingSafeEqual(given, expected);
}

/** Returns a check that accepts the code of any of these keys, of which there are two during a change of key. */
export function createCodeCheck(keys: readonly Buffer[]): CheckCode {
  // A key object is prepared once, which makes a code five times as fast.
  const byId = new Map(keys.map((key) => [leaseKeyId(key), createSecretKey(key)]));
  return (statement, codes) =>
    codes.split(",").some((part) => {
      const key = byId.get(part.slice(0, LEASE_KEY_ID_LENGTH));
      return (
        key !== undefined &&
        part[LEASE_KEY_ID_LENGTH] === "=" &&
        isCode(key, statement, part.slice(LEASE_KEY_ID_LENGTH + 1))
      );
    });
}

/** The statement that a revocation brought the sequence to this state. */
export function revocationStatement({ epoch, sequence, head }: SequenceState): string {
  return `signet-revocation-1 ${epoch} ${sequence} ${head}`;
}

/** The statement that the primary was in this state after a nonce was drawn, given in hexadecimal. */
export function leaseStatement({ epoch, sequence, head, keysDigest, atUs }: Proof, nonce: string): string {
  return `signet-lease-1 ${epoch} ${sequence} ${head} ${keysDigest} ${atUs} ${nonce}`;
}

/** The statement that lines with this SHA-256, in hexadecimal, are all live revocations of this state. */
export function snapshotStatement({ epoch, sequence, head }: SequenceState, linesDigest: string): string {
  return `signet-snapshot-1 ${epoch} ${sequence} ${head} ${linesDigest}`;
}

/** Returns the head of the chain after another line. */
export function nextHead(head: string, line: string): string {
  return hash("sha256", Buffer.concat([Buffer.from(head, "hex"), Buffer.from(line)]), "hex");
}
