/**
 * Removes the remaining data of erased tenants, in pages. Their data keys were erased immediately. The work may be
 * interrupted at any point, repeated, and run concurrently.
 */
import type { Logger } from "pino";
import type { Pool } from "#database/pool.ts";
import {
  completeErasure,
  deleteTenantRows,
  eraseDeliveries,
  type ErasedPage,
  type ErasedTenant,
  eraseEvents,
  type ErasurePage,
  ERASURE_START,
  listErasedTenants,
} from "#database/repositories/tenant-erasure.ts";
import type { Releaser } from "../engine/release.ts";
import type { Clock } from "#domain/clock.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";

const EVERY_MS = 5_000;
const TENANTS_MAX = 10;
const PAGE = 500;
/**
 * Events that were being accepted when the tenant was erased are written by then. No process uses its cached keys of
 * a tenant for longer (webhooks/ingest/content-keys.ts).
 */
const SETTLED_MS = 65_000;

export interface TenantErasureOptions {
  /** Role signet_worker. */
  readonly pool: Pool;
  readonly releaser: Releaser;
  readonly clock: Clock;
  readonly log: Logger;
}

type Walk = (page: ErasurePage) => Promise<ErasedPage>;

/** Continues with all unfinished erasures. An erasure is finished when a whole pass finds nothing left. */
export async function eraseTenants(options: TenantErasureOptions): Promise<void> {
  for (const tenant of await listErasedTenants(options.pool, TENANTS_MAX)) {
    await eraseTenant(tenant, options);
  }
}

async function eraseTenant({ id, erasedAt }: ErasedTenant, options: TenantErasureOptions): Promise<void> {
  const { pool, clock, log } = options;
  const settled = clock.now() - erasedAt.getTime() >= SETTLED_MS;
  const rows = await deleteTenantRows(pool, id, PAGE);
  const deliveries = await walk(id, options, async (page) => await eraseDeliveries(pool, page));
  const events = await walk(id, options, async (page) => await eraseEvents(pool, page));
  if (settled && rows + deliveries + events === 0) {
    await completeErasure(pool, id, new Date(clock.now()));
    log.info({ tenant_id: id }, "tenant erased");
  }
}

/** Processes all pages of one kind of row. Returns the number of rows that still had data. */
async function walk(
  tenantId: string,
  { clock, releaser }: TenantErasureOptions,
  erase: Walk,
): Promise<number> {
  let changed = 0;
  for (let after = ERASURE_START; ;) {
    const page = { tenantId, after, limit: PAGE, now: new Date(clock.now()) };
    const erased = await erase(page);
    releaser.release(erased.cancelled);
    changed += erased.changed;
    if (erased.last === undefined) {
      return changed;
    }
    after = erased.last;
  }
}

/** Returns the job that removes the rest of erased tenants, and ends the workflows of their deliveries. */
export function erasureJob(options: TenantErasureOptions): UpkeepJob {
  return {
    name: "erasure",
    everyMs: EVERY_MS,
    run: async () => await eraseTenants(options),
    end: async () => await options.releaser.drain(),
  };
}
