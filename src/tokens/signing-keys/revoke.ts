/** Emergency revocation of a signing key that may have leaked. Every token that it signed becomes invalid at once. */
import type { Actor } from "../../compliance/entry-types.ts";
import {
  findSigningKey,
  markRevoked,
  type SigningKeyRow,
} from "../../database/repositories/tokens/signing-keys.ts";
import { transaction } from "../../database/transaction.ts";
import { found } from "../../domain/errors.ts";
import { publishRevocation, type Revocation } from "../../revocation/publish-revocation.ts";
import { KeyChange, type SigningKeyServices } from "./rotate.ts";

export interface KeyRevocation {
  readonly kid: string;
  readonly reason: string;
  readonly actor: Actor;
  readonly requestId: string;
}

/**
 * Revokes a key in one transaction. If it was the current key, the next or a new key replaces it, without having been
 * published for an hour. Revoking a revoked key again returns the same result.
 *
 * @throws SignetError NOT_FOUND
 */
export async function revokeSigningKey(
  services: SigningKeyServices,
  { kid, reason, actor, requestId }: KeyRevocation,
): Promise<{ readonly key: SigningKeyRow; readonly revocation: Revocation }> {
  return await transaction(services.pool, async (db) => {
    const { purpose } = found(await findSigningKey(db, kid), "signing key");
    const change = new KeyChange(db, purpose, services);
    await change.catchUp();
    const before = found(await findSigningKey(db, kid), "signing key");
    const revoked = await markRevoked(db, before, { at: change.now, reason });
    if (before.state === "CURRENT") {
      const next = (await change.catchUp()).find(({ state }) => state === "NEXT");
      await (next === undefined ? change.createCurrent() : change.activate(next.kid, change.now));
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
