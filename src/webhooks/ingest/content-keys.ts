/** Keeps the tenants' content keys for ingest. */
import type { KeyObject } from "node:crypto";
import type { Keyring } from "#crypto/keyring.ts";
import type { Queryable } from "#database/pool.ts";
import { findDataKeys } from "#database/repositories/data-keys.ts";
import { putBounded } from "#domain/bounded-map.ts";
import type { Clock } from "#domain/clock.ts";
import { SignetError } from "#domain/errors.ts";

/** Each takes some 300 bytes, with the tenant's id. */
const ROOTS_MAX = 20_000;
/** After this time the database is queried again, because a tenant may have been erased. */
const FRESH_MS = 60_000;

export interface ContentKeys {
  /** Returns a tenant's root key; undefined if it is not known, or was read too long ago. */
  known(tenantId: string): KeyObject | undefined;
  /**
   * Reads a tenant's root key. It may wait for a key management service.
   *
   * @param db role signet_ingest
   * @throws SignetError TENANT_SUSPENDED if the tenant is erased
   */
  read(db: Queryable, tenantId: string): Promise<void>;
}

export interface ContentKeysOptions {
  readonly keyring: Pick<Keyring, "contentRoot">;
  readonly clock: Clock;
}

export function createContentKeys({ keyring, clock }: ContentKeysOptions): ContentKeys {
  const roots = new Map<string, { readonly root: KeyObject; readonly untilMs: number }>();

  return {
    known: (tenantId) => {
      const kept = roots.get(tenantId);
      return kept !== undefined && clock.now() < kept.untilMs ? kept.root : undefined;
    },
    read: async (db, tenantId) => {
      const wrapped = (await findDataKeys(db, [tenantId])).get(tenantId);
      if (wrapped === undefined) {
        roots.delete(tenantId);
        throw new SignetError("TENANT_SUSPENDED", { detail: "The tenant no longer accepts events." });
      }
      const root = await keyring.contentRoot(wrapped, tenantId);
      putBounded(roots, tenantId, { root, untilMs: clock.now() + FRESH_MS }, ROOTS_MAX);
    },
  };
}
