/**
 * How a client secret follows the one before it, as pure functions over what a store holds.
 *
 * The service hands a due successor out in the token answer, the same one to everybody who presents its predecessor,
 * and keeps the predecessor until the successor was used. So the only way to be locked out is to use a successor and
 * then lose it: it is used only once it is stored, and no write ever puts an older version over a newer one.
 */
import { asObject } from "./json.ts";

/** What is presented at the token endpoint; `secret` is null where the client certificate alone authenticates. */
export interface ClientSecret {
  readonly clientId: string;
  readonly secret: string | null;
}

/** A secret that the service has handed out as the next one. */
export interface Successor {
  readonly secret: string;
  readonly version: number;
}

/** A secret as it is stored; the version is null while nobody has named it. */
export interface StoredSecret {
  readonly secret: string;
  readonly version: number | null;
}

/** What a store holds. */
export interface StoredCredential {
  readonly clientId: string;
  /** Works for certain. */
  readonly current: StoredSecret;
  /** Stored, and perhaps used already. */
  readonly next: Successor | null;
}

/** Reads a secret as answers and stores hold it: `client_secret`, and `version` where it has one. */
export function readSecret(value: unknown): StoredSecret | null {
  const { client_secret: secret, version } = asObject(value);
  if (typeof secret !== "string" || secret === "") {
    return null;
  }
  return { secret, version: Number.isSafeInteger(version) ? (version as number) : null };
}

/** Reads a secret that is of use only with its version. */
export function readSuccessor(value: unknown): Successor | null {
  const found = readSecret(value);
  return found === null || found.version === null ? null : { secret: found.secret, version: found.version };
}

function isAhead(stored: StoredCredential, version: number): boolean {
  return (stored.current.version ?? 0) >= version || (stored.next?.version ?? 0) >= version;
}

/**
 * What to store once `presented` was answered with `successor`: the argument itself when it is there already or the
 * store is further on (another process was here).
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

/** What to store once `secret` was accepted: a next one that works is the current one. */
export function withAccepted(stored: StoredCredential, secret: string): StoredCredential {
  return stored.next?.secret === secret
    ? { clientId: stored.clientId, current: stored.next, next: null }
    : stored;
}
