/**
 * Records publishing on behalf of another tenant in the compliance log. One entry per hour, principal and tenant is
 * written before the first event of that hour is accepted. Each API process keeps its own memory and writes its own
 * entries. Nothing is published without an entry.
 */
import { appendEntry } from "#compliance/append-entry.ts";
import type { EntryServices } from "#compliance/entry.ts";
import type { Pool } from "#database/pool.ts";
import { tenantTransaction } from "#database/transaction.ts";
import { putBounded } from "#domain/bounded-map.ts";

const HOUR_MS = 3_600_000;
/** Maximum number of cached pairs. An evicted pair is logged again. */
const PAIRS_MAX = 10_000;

/** A principal and the tenant that it publishes for. */
export interface PlatformPublishing {
  readonly principalId: string;
  readonly credentialId: string;
  /** The tenant that owns the event. */
  readonly tenantId: string;
  readonly requestId: string;
}

/** Resolves when the log contains that this principal publishes for this tenant in this hour. */
export type NotePlatformPublishing = (publishing: PlatformPublishing) => Promise<void>;

interface Noted {
  readonly hour: number;
  readonly written: Promise<unknown>;
}

/** @param pool role signet_api */
export function createPlatformPublishingAudit(
  pool: Pool,
  { clock, randomBytes }: EntryServices,
): NotePlatformPublishing {
  const noted = new Map<string, Noted>();

  async function write(publishing: PlatformPublishing, hour: number): Promise<void> {
    const { principalId, credentialId, tenantId, requestId } = publishing;
    await tenantTransaction(
      pool,
      tenantId,
      async (db) =>
        await appendEntry(
          db,
          {
            type: "events.published_for_tenant",
            actor: `credential:${credentialId}`,
            tenant: tenantId,
            target: tenantId,
            requestId,
            details: { principal_id: principalId, hour: new Date(hour * HOUR_MS).toISOString() },
          },
          { clock, randomBytes },
        ),
    );
  }

  return async (publishing) => {
    const hour = Math.floor(clock.now() / HOUR_MS);
    const pair = `${publishing.principalId} ${publishing.tenantId}`;
    const known = noted.get(pair);
    if (known?.hour === hour) {
      await known.written;
      return;
    }
    const written = write(publishing, hour);
    putBounded(noted, pair, { hour, written }, PAIRS_MAX);
    try {
      await written;
    } catch (error) {
      // Do not let later callers rely on the failed entry.
      if (noted.get(pair)?.written === written) {
        noted.delete(pair);
      }
      throw error;
    }
  };
}
