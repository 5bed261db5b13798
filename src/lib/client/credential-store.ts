/** Where a credential is kept, so that it survives this process. */
import type { StoredCredential } from "./succession.ts";

/**
 * A durable place for one credential: a file, a secret manager. Several processes may share it. It is read before every
 * token request, so that what one of them learns all of them use.
 */
export interface CredentialStore {
  /** What is there; undefined when nothing is. */
  load(): Promise<StoredCredential | undefined>;
  /**
   * Replaces it, all or nothing, and resolves once it would survive a power failure. It must reject where it cannot:
   * then the successor is not used, and the present secret goes on working.
   */
  save(credential: StoredCredential): Promise<void>;
}
