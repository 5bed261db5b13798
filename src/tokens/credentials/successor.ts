/**
 * The successor's secret, wrapped in its predecessor: who holds the database and every key of ours cannot read it, who
 * presents the predecessor can, and every process reads the same (security decisions C 1).
 */
import { type EnvelopeKey, EnvelopeError, openEnvelope, sealEnvelope } from "../../crypto/envelope.ts";
import type { Pepper } from "../../crypto/pepper.ts";
import type { RandomBytes } from "../../domain/ids.ts";

/** Where a successor is kept. */
export interface SuccessorPlace {
  readonly credentialId: string;
  /** The successor's own number. */
  readonly version: number;
}

function aadOf({ credentialId, version }: SuccessorPlace): string {
  return `${credentialId}|${version}`;
}

/** The envelope names the pepper, which may be an earlier one by the time the envelope is opened. */
function keyFor(pepper: Pepper, predecessor: string, place: SuccessorPlace, id = pepper.id): EnvelopeKey {
  const key = pepper.deriveKey(predecessor, `succ|${aadOf(place)}`, id);
  if (key === undefined) {
    throw new EnvelopeError("wrapped under a pepper that is not known here");
  }
  return { id, key };
}

/** Wraps a new secret so that only its predecessor opens it. */
export function wrapSuccessor(
  place: SuccessorPlace,
  secrets: { readonly predecessor: string; readonly successor: string },
  pepper: Pepper,
  randomBytes: RandomBytes,
): string {
  const key = keyFor(pepper, secrets.predecessor, place);
  return sealEnvelope(key, aadOf(place), secrets.successor, randomBytes);
}

/**
 * Reads a successor with the secret before it.
 *
 * @throws EnvelopeError when it was wrapped in another secret, for another place, or under a pepper that is gone
 */
export function unwrapSuccessor(
  place: SuccessorPlace,
  predecessor: string,
  wrapped: string,
  pepper: Pepper,
): string {
  const [, pepperId] = wrapped.split(".", 2);
  const key = keyFor(pepper, predecessor, place, pepperId);
  return openEnvelope(key, aadOf(place), wrapped).toString("utf8");
}
