/**
 * Succession of client secrets, as pure functions over a store's content.
 *
 * The service returns a due successor in the token answer, the same one for every use of its predecessor,
 * and keeps the predecessor until the successor was used. The only way to be locked out is to use a successor and
 * then lose it: it is used only once it is stored, and no write ever puts an older version over a newer one.
 */
import { asObject } from "./json.ts";

/** A candidate for the token endpoint; `secret` is null if the client certificate alone authenticates. */
export interface ClientSecret {
  readonly clientId: string;
  readonly secret: string | null;
}

/** A successor from the service. */
export interface Successor {
  readonly secret: string;
  readonly version: number;
}

/** A stored secret; the version is null while unknown. */
export interface StoredSecret {
  readonly secret: string;
  readonly version: number | null;
}

/** The content of a store. */
export interface StoredCredential {
  readonly clientId: string;
  /** Known to work. */
  readonly current: StoredSecret;
  /** Stored, and perhaps used already. */
  readonly next: Successor | null;
}

/** Reads a secret from answers and stores: `client_secret`, and `version` if present. */
export function readSecret(value: unknown): StoredSecret | null {
  const { client_secret: secret, version } = asObject(value);
  if (typeof secret !== "string" || secret === "") {
    return null;
  }
  return { secret, version: Number.isSafeInteger(version) ? (version as number) : null };
}

/** Reads a secret that must have a version. */
export function readSuccessor(value: unknown): Successor | null {
  const found = readSecret(value);
  return found === null || found.version === null ? null : { secret: found.secret, version: found.version };
}

function isAhead(stored: StoredCredential, version: number): boolean {
  return (stored.current.version ?? 0) >= version || (stored.next?.version ?? 0) >= version;
}

/**
 * Returns what to store after `presented` was answered with `successor`: the argument itself if it is stored or the
 * store is newer (written by another process).
 */
export function withSuccessor(
  stored: StoredCredential | undefined,
  presented: { readonly clientId: string; readonly secret: string },
  successor: Successor,
): StoredCredential {
  const { clientId, secret } = presented;
  if (stored !== undefined && stored.clientId === clientId && isAhead(stored, successor.version)) {
    return stored;
  }
  return { clientId, current: { secret, version: successor.version - 1 }, next: successor };
}

/** Returns what to store after `secret` was accepted: a working next one becomes the current one. */
export function withAccepted(stored: StoredCredential, secret: string): StoredCredential {
  return stored.next?.secret === secret
    ? { clientId: stored.clientId, current: stored.next, next: null }
    : stored;
}
