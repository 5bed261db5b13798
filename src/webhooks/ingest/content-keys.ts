/** Caches the tenants' content keys for ingest, so that a commit across tenants requests none twice. */
import type { KeyObject } from "node:crypto";
import type { Keyring } from "../../crypto/keyring.ts";
import type { Queryable } from "../../database/pool.ts";
import { findDataKeys } from "../../database/repositories/data-keys.ts";
import { putBounded } from "../../domain/bounded-map.ts";
import type { Clock } from "../../domain/clock.ts";
import { SignetError } from "../../domain/errors.ts";

const ROOTS_MAX = 1_000;
/** After this time the database is queried again, because a tenant may have been erased. */
const FRESH_MS = 60_000;

/** Content root key of each tenant, or the reason why it has none. */
export type ContentRoots = ReadonlyMap<string, KeyObject | Error>;

export interface ContentKeys {
  /**
   * Returns the root keys of all named tenants. One tenant's error does not affect the others.
   *
   * @param db role signet_ingest
   */
  rootsOf(db: Queryable, tenantIds: Iterable<string>): Promise<ContentRoots>;
}

export interface ContentKeysOptions {
  readonly keyring: Pick<Keyring, "contentRoot">;
  readonly clock: Clock;
}

export function createContentKeys({ keyring, clock }: ContentKeysOptions): ContentKeys {
  const known = new Map<string, { readonly root: KeyObject; readonly untilMs: number }>();

  async function ask(db: Queryable, tenantIds: readonly string[], roots: Map<string, KeyObject | Error>) {
    const wrapped = await findDataKeys(db, tenantIds);
    // Together, because a key management service may be far away.
    await Promise.all(
      tenantIds.map(async (tenantId) => {
        roots.set(tenantId, await unwrap(tenantId, wrapped.get(tenantId)));
      }),
    );
  }

  async function unwrap(tenantId: string, wrapped: string | undefined): Promise<KeyObject | Error> {
    if (wrapped === undefined) {
      known.delete(tenantId);
      return new SignetError("TENANT_SUSPENDED", { detail: "The tenant no longer accepts events." });
    }
    try {
      const root = await keyring.contentRoot(wrapped, tenantId);
      putBounded(known, tenantId, { root, untilMs: clock.now() + FRESH_MS }, ROOTS_MAX);
      return root;
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    }
  }

  return {
    rootsOf: async (db, tenantIds) => {
      const roots = new Map<string, KeyObject | Error>();
      const missing: string[] = [];
      const nowMs = clock.now();
      for (const tenantId of new Set(tenantIds)) {
        const at = known.get(tenantId);
        if (at !== undefined && nowMs < at.untilMs) {
          roots.set(tenantId, at.root);
        } else {
          missing.push(tenantId);
        }
      }
      if (missing.length > 0) {
        await ask(db, missing, roots);
      }
      return roots;
    },
  };
}
