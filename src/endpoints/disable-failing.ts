/**
 * Disables endpoints that nothing has reached for days (security decisions H). Workers note failures and successes in
 * memory and tell the database every few seconds; before the verdict the deliveries themselves are asked, because a
 * worker may have died with what it had noted.
 */
import type { Logger } from "pino";
import { appendEntry } from "../compliance/append-entry.ts";
import type { Pool } from "../database/pool.ts";
import {
  type FailingEndpoint,
  findFailing,
  forgetFailing,
  forgetFailures,
  hasDelivered,
  noteFailures,
} from "../database/repositories/endpoint-failures.ts";
import { lockEndpoint, moveEndpoint } from "../database/repositories/endpoints.ts";
import { transaction } from "../database/transaction.ts";
import type { EndpointFailures } from "../delivery/endpoint-failures.ts";
import { type OwnEventSources, publishOwnEvent } from "../delivery/own-event.ts";
import { mayMove } from "../domain/endpoint-state.ts";

const DISABLED_AT_ONCE = 100;

/** Tells the database which endpoints were reached and which were not. */
export async function writeFailures(pool: Pool, failures: EndpointFailures): Promise<void> {
  await failures.flush(async ({ reached, failed }) => {
    if (reached.length > 0) {
      await forgetFailures(
        pool,
        reached.map(({ endpointId, atMs }) => ({ endpointId, at: new Date(atMs) })),
      );
    }
    if (failed.length > 0) {
      await noteFailures(
        pool,
        failed.map(({ endpointId, sinceMs, exhaustedMs }) => ({
          endpointId,
          since: new Date(sinceMs),
          exhaustedAt: exhaustedMs === null ? null : new Date(exhaustedMs),
        })),
      );
    }
  });
}

export interface DisableFailingOptions extends OwnEventSources {
  /** signet_worker */
  readonly pool: Pool;
  readonly log: Logger;
  /** Milliseconds without a 2xx; 0: never. */
  readonly afterMs: number;
}

/** One round; how many endpoints were disabled. */
export async function disableFailing(options: DisableFailingOptions): Promise<number> {
  const { pool, clock, afterMs } = options;
  if (afterMs === 0) {
    return 0;
  }
  const before = new Date(clock.now() - afterMs);
  let disabled = 0;
  for (const endpoint of await findFailing(pool, { before, limit: DISABLED_AT_ONCE })) {
    if (await disable(endpoint, options)) {
      disabled += 1;
    }
  }
  return disabled;
}

async function disable(
  { id, tenantId, failingSince }: FailingEndpoint,
  options: DisableFailingOptions,
): Promise<boolean> {
  const { pool, clock, log } = options;
  return await transaction(pool, async (db) => {
    const current = await lockEndpoint(db, tenantId, id);
    await forgetFailing(db, id);
    if (current === undefined || !mayMove("fail", current)) {
      return false;
    }
    if (await hasDelivered(db, current, failingSince)) {
      return false;
    }
    const now = new Date(clock.now());
    await moveEndpoint(db, { tenantId, id, now }, "fail");
    const details = { reason: "failing", failing_since: failingSince.toISOString() };
    const data = JSON.stringify({ endpoint_id: id, ...details, disabled_at: now.toISOString() });
    await publishOwnEvent(db, { tenantId, type: "endpoint.disabled", data, except: id }, options);
    await appendEntry(
      db,
      { actor: "system:worker", type: "endpoint.disabled", tenant: tenantId, target: id, details },
      options,
    );
    log.info(
      { tenant_id: tenantId, endpoint_id: id, failing_since: failingSince },
      "an endpoint that fails was disabled",
    );
    return true;
  });
}
