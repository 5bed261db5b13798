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

export interface ContentKeysOptions {
  readonly keyring: Pick<Keyring, "contentRoot">;
  readonly clock: Clock;
}

export class ContentKeys {
  readonly #options: ContentKeysOptions;
  readonly #roots = new Map<string, { readonly root: KeyObject; readonly untilMs: number }>();

  constructor(options: ContentKeysOptions) {
    this.#options = options;
  }

  /** Returns a tenant's root key; undefined if it is not known, or was read too long ago. */
  known(tenantId: string): KeyObject | undefined {
    const kept = this.#roots.get(tenantId);
    return kept !== undefined && this.#options.clock.now() < kept.untilMs ? kept.root : undefined;
  }

  /**
   * Reads a tenant's root key. It may wait for a key management service.
   *
   * @param db role signet_ingest
   * @throws SignetError TENANT_SUSPENDED if the tenant is erased
   */
  async read(db: Queryable, tenantId: string): Promise<void> {
    const { keyring, clock } = this.#options;
    const wrapped = (await findDataKeys(db, [tenantId])).get(tenantId);
    if (wrapped === undefined) {
      this.#roots.delete(tenantId);
      throw new SignetError("TENANT_SUSPENDED", { detail: "The tenant no longer accepts events." });
    }
    const root = await keyring.contentRoot(wrapped, tenantId);
    putBounded(this.#roots, tenantId, { root, untilMs: clock.now() + FRESH_MS }, ROOTS_MAX);
  }
}
