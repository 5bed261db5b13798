/** Durable storage of a credential. */
import type { StoredCredential } from "./succession.ts";

/**
 * A durable store for one credential: a file, a secret manager. Several processes may share it. It is read before every
 * token request, so that all of them use an update by one.
 */
export interface CredentialStore {
  /** Where it keeps the credential, for messages: the path of a file, the name of a secret. */
  readonly place?: string;
  /** Returns the credential; undefined if there is none. */
  load(): Promise<StoredCredential | undefined>;
  /**
   * Replaces it atomically, and resolves once it would survive a power failure. It must reject otherwise:
   * then the successor is not used, and the current secret keeps working.
   */
  save(credential: StoredCredential): Promise<void>;
}
