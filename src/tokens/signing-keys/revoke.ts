/** Emergency revocation of a signing key that may have leaked. Every token that it signed becomes invalid at once. */
import type { Actor } from "#compliance/entry-types.ts";
import type { Keyring } from "#crypto/keyring.ts";
import {
  findSigningKey,
  markRevoked,
  type NewSigningKey,
  type SigningKeyRow,
} from "#database/repositories/tokens/signing-keys.ts";
import { transaction } from "#database/transaction.ts";
import { found } from "#domain/errors.ts";
import { publishRevocation, type Revocation } from "#revocation/publish-revocation.ts";
import type { RevocationView } from "#revocation/view.ts";
import { within } from "#runtime/within.ts";
import type { KeyStore } from "./key-store.ts";
import { KeyChange, type SigningKeyServices } from "./rotate.ts";
import { generateSigningKey } from "./signing-key.ts";

/** How long a revocation waits for the key service, which must wrap a new key, in milliseconds. */
const WRAP_MS = 500;

export interface KeyRevocation {
  readonly kid: string;
  readonly reason: string;
  readonly actor: Actor;
  readonly requestId: string;
}

/**
 * Returns a new key in case the revoked one has no successor; undefined if the key service does not wrap it in time. It is
 * asked before the transaction, since a revocation must not depend on it.
 *
 * @throws SignetError NOT_FOUND
 */
async function makeSpare(
  { pool, keyring, timers, algs }: SigningKeyServices,
  kid: string,
): Promise<NewSigningKey | undefined> {
  const { purpose } = found(await findSigningKey(pool, kid), "signing key");
  const sealWithKek: Keyring["sealWithKek"] = async (aad, plaintext) =>
    await within(timers, WRAP_MS, keyring.sealWithKek(aad, plaintext));
  return await generateSigningKey(algs[purpose], { sealWithKek }).catch(() => undefined);
}

/**
 * Revokes a key in one transaction. If it was the current key, the next or a new key replaces it, without having been
 * published for an hour. While the key service does not answer, a new key follows with the next rotation. Revoking a
 * revoked key again returns the same result.
 *
 * @throws SignetError NOT_FOUND
 */
export async function revokeSigningKey(
  services: SigningKeyServices,
  { kid, reason, actor, requestId }: KeyRevocation,
): Promise<{ readonly key: SigningKeyRow; readonly revocation: Revocation }> {
  const spare = await makeSpare(services, kid);
  return await transaction(services.pool, async (db) => {
    const { purpose } = found(await findSigningKey(db, kid), "signing key");
    const change = new KeyChange(db, purpose, services);
    await change.catchUp();
    const before = found(await findSigningKey(db, kid), "signing key");
    const revoked = await markRevoked(db, before, { at: change.now, reason });
    if (before.state === "CURRENT") {
      const next = (await change.catchUp()).find(({ state }) => state === "NEXT");
      if (next !== undefined) {
        await change.activate(next.kid, change.now);
      } else if (spare !== undefined) {
        await change.createCurrent(spare);
      }
    }
    await change.record({ actor, requestId });
    const revocation = await publishRevocation(
      db,
      {
        kind: "kid",
        target: kid,
        tenant: null,
        actor,
        reason,
        requestId,
        disabledNow: revoked !== undefined,
      },
      services,
    );
    return { key: revoked ?? before, revocation };
  });
}

/** A holder that cannot be revoked, to ask about a key alone. */
const NOBODY = {
  credentialId: "",
  principalId: "",
  tenantId: "",
  jti: "",
  issuedAt: Infinity,
  certificateThumbprint: undefined,
};

/** Returns the function that reads the keys again if a key, by default the one that signs, is revoked and signs. */
export function keyReplacement(
  keys: Pick<KeyStore, "signingKey" | "refresh">,
  view: Pick<RevocationView, "issuableFrom">,
): (kid?: string) => Promise<boolean> {
  return async (kid = keys.signingKey().kid) => {
    if (view.issuableFrom({ ...NOBODY, kid }) !== Infinity) {
      return false;
    }
    if (keys.signingKey().kid === kid) {
      await keys.refresh();
    }
    return keys.signingKey().kid !== kid;
  };
}
