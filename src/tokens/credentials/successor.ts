/**
 * Wraps the successor's secret with its predecessor. The database and all of our keys do not suffice to read it, but
 * the predecessor does. Every process reads the same successor (security decisions C 1).
 */
import { type EnvelopeKey, EnvelopeError, openEnvelope, sealEnvelope } from "#crypto/envelope.ts";
import type { Pepper } from "#crypto/pepper.ts";
import type { RandomBytes } from "#domain/ids.ts";

/** The version of a successor. */
export interface SuccessorPlace {
  readonly credential_id: string;
  /** The successor's own number. */
  readonly version: number;
}

function aadOf({ credential_id: credentialId, version }: SuccessorPlace): string {
  return `${credentialId}|${version}`;
}

/** Derives the key. The envelope names its pepper, which may no longer be the newest. */
function keyFor(pepper: Pepper, predecessor: string, place: SuccessorPlace, id = pepper.id): EnvelopeKey {
  const key = pepper.deriveKey(predecessor, `succ|${aadOf(place)}`, id);
  if (key === undefined) {
    throw new EnvelopeError("wrapped under an unknown pepper");
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
 * Unwraps a successor with its predecessor.
 *
 * @throws EnvelopeError if it was wrapped with another secret, for another version, or under an unknown pepper
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
