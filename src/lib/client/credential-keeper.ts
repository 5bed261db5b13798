/** Decides which secrets to present, in which order, and what to store from the answers. */
import type { CredentialStore } from "./credential-store.ts";
import { CredentialStoreError } from "./errors.ts";
import type { Warn } from "./runtime.ts";
import {
  type ClientSecret,
  type StoredCredential,
  type Successor,
  withAccepted,
  withSuccessor,
} from "./succession.ts";

/** A hanging store must not block tokens. */
const STORE_TIMEOUT_MS = 10_000;

export interface CredentialKeeperOptions {
  /** The program's configured credential; absent if the store holds it. */
  readonly configured: ClientSecret | undefined;
  readonly store: CredentialStore | undefined;
  readonly warn: Warn;
  readonly storeTimeoutMs?: number;
}

async function inTime<T>(promise: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new CredentialStoreError(`the store took more than ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

function withoutNext(stored: StoredCredential): StoredCredential {
  return { ...stored, next: null };
}

export class CredentialKeeper {
  readonly #configured: ClientSecret | undefined;
  readonly #store: CredentialStore | undefined;
  readonly #warn: Warn;
  readonly #timeoutMs: number;
  /** The last successfully read content of the store. */
  #known: StoredCredential | undefined;
  /** Why the store could not be read the last time. */
  #unreadable: { readonly message: string; readonly cause: unknown } | undefined;
  /** A stored successor rejected by the service: no longer tried first. */
  #rejectedNext: string | null = null;
  /** Sequential changes of the store. */
  #changes: Promise<unknown> = Promise.resolve();

  constructor({ configured, store, warn, storeTimeoutMs = STORE_TIMEOUT_MS }: CredentialKeeperOptions) {
    this.#configured = configured;
    this.#store = store;
    this.#warn = warn;
    this.#timeoutMs = storeTimeoutMs;
  }

  /**
   * Returns the candidates, best first: the stored successor, the stored secret, the configured one.
   *
   * @throws CredentialStoreError if there is none
   */
  async candidates(): Promise<ClientSecret[]> {
    const stored = await this.#load();
    const configured = this.#configured;
    const found: ClientSecret[] = [];
    if (stored !== undefined) {
      const { clientId, current, next } = stored;
      const successor = next === null ? [] : [next.secret];
      const order =
        next?.secret === this.#rejectedNext ? [current.secret, ...successor] : [...successor, current.secret];
      found.push(...order.map((secret) => ({ clientId, secret })));
    }
    if (configured !== undefined && !found.some(({ secret }) => secret === configured.secret)) {
      found.push(configured);
    }
    if (found.length === 0) {
      throw this.#missing();
    }
    return found;
  }

  #missing(): CredentialStoreError {
    if (this.#unreadable !== undefined) {
      const { message, cause } = this.#unreadable;
      return new CredentialStoreError(`there is no credential: ${message}`, { cause });
    }
    const place = this.#store?.place;
    const where = place === undefined ? "the store has none" : `${place} does not exist`;
    return new CredentialStoreError(`there is no credential: none is configured, and ${where}`);
  }

  /** Records that a candidate was rejected as invalid_client. */
  rejected(candidate: ClientSecret): void {
    if (candidate.secret !== null && candidate.secret === this.#known?.next?.secret) {
      this.#rejectedNext = candidate.secret;
    }
  }

  /** Records that a candidate was accepted, with its successor if any. Never rejects: there is a token already. */
  async accepted({ clientId, secret }: ClientSecret, successor: Successor | null): Promise<void> {
    if (secret === null) {
      return;
    }
    await this.#change((stored) => {
      const ours = stored?.clientId === clientId ? withAccepted(stored, secret) : undefined;
      if (successor === null) {
        return ours;
      }
      // The named successor replaces one that the service does not know.
      const trusted =
        ours?.next !== undefined && ours.next?.secret === this.#rejectedNext ? withoutNext(ours) : ours;
      return withSuccessor(trusted, { clientId, secret }, successor);
    }, successor !== null);
  }

  async #load(): Promise<StoredCredential | undefined> {
    if (this.#store === undefined) {
      return undefined;
    }
    try {
      const stored = await inTime(this.#store.load(), this.#timeoutMs);
      // The configured credential differs from the stored one.
      const foreign = this.#configured !== undefined && stored?.clientId !== this.#configured.clientId;
      this.#known = foreign ? undefined : stored;
      this.#unreadable = undefined;
    } catch (error) {
      this.#unreadable = { message: error instanceof Error ? error.message : String(error), cause: error };
      this.#warn({
        code: "STORE_UNREADABLE",
        message: "the stored credential cannot be read; going on with what is known",
        cause: error,
      });
    }
    return this.#known;
  }

  async #change(
    change: (stored: StoredCredential | undefined) => StoredCredential | undefined,
    offered: boolean,
  ): Promise<void> {
    const turn = this.#changes.then(async () => {
      await this.#save(change, offered);
    });
    this.#changes = turn;
    await turn;
  }

  /** Reads again right before writing: another process may have written since. */
  async #save(
    change: (stored: StoredCredential | undefined) => StoredCredential | undefined,
    offered: boolean,
  ): Promise<void> {
    try {
      if (this.#store === undefined) {
        if (offered) {
          throw new CredentialStoreError("no store is configured");
        }
        return;
      }
      const stored = await inTime(this.#store.load(), this.#timeoutMs);
      const wanted = change(stored);
      if (wanted !== undefined && wanted !== stored) {
        await inTime(this.#store.save(wanted), this.#timeoutMs);
      }
      this.#rejectedNext = wanted?.next?.secret === this.#rejectedNext ? this.#rejectedNext : null;
    } catch (error) {
      if (offered) {
        this.#warn({
          code: "SUCCESSOR_NOT_STORED",
          message:
            "the service has named this secret's successor and it cannot be stored: the present one is kept, and ends when its overlap does",
          cause: error,
        });
      }
    }
  }
}
