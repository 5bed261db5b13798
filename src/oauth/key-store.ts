/** The signing keys of the deployment, held in memory and read again now and then: every process serves the same. */
import type { KeyObject } from "node:crypto";
import type { Keyring } from "../crypto/keyring.ts";
import type { Queryable } from "../database/pool.ts";
import { hasCurrentKey, insertFirstKey, listPublishedKeys } from "../database/repositories/signing-keys.ts";
import type { Clock } from "../domain/clock.ts";
import { SignetError } from "../errors.ts";
import type { Logger } from "../observability/logger.ts";
import {
  generateSigningKey,
  openSigningKey,
  openVerificationKey,
  type PublicJwk,
  type SigningKey,
} from "./signing-key.ts";

const REFRESH_MS = 60_000;
/** A token with an unknown key asks for a fresh look at most this often. */
const UNKNOWN_KEY_COOLDOWN_MS = 30_000;

export interface KeyStore {
  /** The key that signs. Throws `UNAVAILABLE` while there is none. */
  readonly signingKey: () => SigningKey;
  /** The public half of a published key; looks into the database once when it is not known. */
  readonly verificationKey: (kid: string) => Promise<KeyObject | undefined>;
  /** What `/.well-known/jwks.json` answers. */
  readonly publicKeys: () => readonly PublicJwk[];
  /** Reads the keys again. */
  readonly refresh: () => Promise<void>;
  /** Ends the periodic reading. */
  readonly close: () => void;
}

/** Makes the deployment's first signing key if there is none. Any number of processes may do so at once. */
export async function ensureSigningKey(db: Queryable, keyring: Keyring, clock: Clock): Promise<void> {
  if (!(await hasCurrentKey(db))) {
    await insertFirstKey(db, await generateSigningKey(keyring), clock.now());
  }
}

export interface KeyStoreOptions {
  /** Role signet_issuer. */
  readonly db: Queryable;
  readonly keyring: Keyring;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Opens the key store and reads the keys. */
export async function openKeyStore({ db, keyring, clock, log }: KeyStoreOptions): Promise<KeyStore> {
  let current: SigningKey | undefined;
  let verification: ReadonlyMap<string, KeyObject> = new Map();
  let published: readonly PublicJwk[] = [];
  let readAt = -Infinity;

  async function refresh(): Promise<void> {
    readAt = clock.now();
    const rows = await listPublishedKeys(db);
    const signing = rows.find((row) => row.state === "CURRENT");
    current = signing === undefined ? undefined : openSigningKey(signing, keyring);
    verification = new Map(rows.map((row) => [row.kid, openVerificationKey(row)]));
    published = rows.map((row) => row.public_jwk as unknown as PublicJwk);
  }

  await refresh();
  const timer = setInterval(() => {
    refresh().catch((error: unknown) => log.warn({ err: error }, "signing keys could not be read again"));
  }, REFRESH_MS).unref();

  return {
    signingKey: () => {
      if (current === undefined) {
        throw new SignetError("UNAVAILABLE", {
          detail: "There is no key to sign with.",
          headers: { "retry-after": "1" },
        });
      }
      return current;
    },
    verificationKey: async (kid) => {
      if (!verification.has(kid) && clock.now() - readAt >= UNKNOWN_KEY_COOLDOWN_MS) {
        await refresh();
      }
      return verification.get(kid);
    },
    publicKeys: () => published,
    refresh,
    close: () => clearInterval(timer),
  };
}
