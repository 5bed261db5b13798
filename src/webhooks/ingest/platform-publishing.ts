/**
 * Publishing in another tenant's name, in the compliance log: one entry per hour, principal and tenant, written before
 * the first event of that hour is accepted and never per event. The memory is this process's, so each api process
 * writes its own; what has no entry is not published.
 */
import { appendEntry } from "../../compliance/append-entry.ts";
import type { EntrySources } from "../../compliance/entry.ts";
import type { Pool } from "../../database/pool.ts";
import { tenantTransaction } from "../../database/transaction.ts";
import { putBounded } from "../../domain/bounded-map.ts";

const HOUR_MS = 3_600_000;
/** Pairs remembered; a forgotten one is noted again. */
const PAIRS_MAX = 10_000;

/** Who publishes for whom. */
export interface PlatformPublishing {
  readonly principalId: string;
  readonly credentialId: string;
  /** The tenant whose event it becomes. */
  readonly tenantId: string;
  readonly requestId: string;
}

/** Resolves when it is in the log that this principal publishes for this tenant in this hour. */
export type NotePlatformPublishing = (publishing: PlatformPublishing) => Promise<void>;

interface Noted {
  readonly hour: number;
  readonly written: Promise<unknown>;
}

/** @param pool role signet_api */
export function createPlatformPublishingAudit(
  pool: Pool,
  { clock, randomBytes }: EntrySources,
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
      // Nobody after this one may take it for written.
      if (noted.get(pair)?.written === written) {
        noted.delete(pair);
      }
      throw error;
    }
  };
}
