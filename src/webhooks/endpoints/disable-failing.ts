/**
 * Disables endpoints that have been unreachable for days (security decisions H), and those that return 410 Gone.
 * Workers collect failures and successes in memory and write them every few seconds. A worker may crash with
 * unwritten data, so the deliveries themselves are checked before an endpoint is disabled.
 */
import type { Logger } from "pino";
import { appendEntry } from "#compliance/append-entry.ts";
import type { Pool, Queryable } from "#database/pool.ts";
import {
  type FailingEndpoint,
  findFailing,
  forgetFailing,
  forgetFailures,
  hasDelivered,
  noteFailures,
} from "#database/repositories/webhooks/endpoint-failures.ts";
import { type Endpoint, lockEndpoint, moveEndpoint } from "#database/repositories/endpoints/endpoints.ts";
import { findStream } from "#database/repositories/webhooks/ssf-streams.ts";
import { transaction } from "#database/transaction.ts";
import type { EndpointFailures } from "../pacing/endpoint-failures.ts";
import { type OwnEventServices, publishOwnEvent } from "../ingest/own-event.ts";
import { streamOf } from "../sending/delivery-format.ts";
import { publishStreamUpdated } from "../ssf/publish.ts";
import { ENDPOINT_MOVES, mayMove } from "#domain/endpoint-state.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";

const DISABLED_AT_ONCE = 100;
const WRITE_MS = 2_000;
const DISABLE_MS = 60_000;

/** Writes which endpoints were reached and which were not. */
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

export interface DisableOptions extends OwnEventServices {
  /** Role signet_worker. */
  readonly pool: Pool;
  readonly log: Logger;
}

export interface DisableFailingOptions extends DisableOptions {
  /** Milliseconds without a 2xx; 0 to never disable. */
  readonly afterMs: number;
}

/** Runs one round. Returns the number of disabled endpoints. */
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
  const disabled = await transaction(options.pool, async (db) => {
    const current = await lockEndpoint(db, tenantId, id);
    await forgetFailing(db, id);
    if (current === undefined || !mayMove("fail", current)) {
      return undefined;
    }
    if (await hasDelivered(db, current, failingSince)) {
      return undefined;
    }
    const details = { failing_since: failingSince.toISOString() };
    return await move(db, current, { name: "fail", details }, options);
  });
  return report(disabled, options);
}

/** Logs what was committed. Returns whether an endpoint was disabled. */
function report(disabled: object | undefined, { log }: DisableOptions): boolean {
  if (disabled !== undefined) {
    log.info(disabled, "an endpoint was disabled");
  }
  return disabled !== undefined;
}

/** An endpoint whose receiver returned 410 Gone at this URL. */
export interface GoneEndpoint {
  readonly tenantId: string;
  readonly endpointId: string;
  readonly url: string;
}

/** Creates the function that disables such endpoints. Concurrent 410 responses share one call. */
export function createGoneDisabler(options: DisableOptions): (endpoint: GoneEndpoint) => Promise<void> {
  const underWay = new Map<string, Promise<void>>();
  return async (endpoint) => {
    const { endpointId } = endpoint;
    const disabling =
      underWay.get(endpointId) ?? disableGone(endpoint, options).finally(() => underWay.delete(endpointId));
    underWay.set(endpointId, disabling);
    await disabling;
  };
}

async function disableGone(
  { tenantId, endpointId, url }: GoneEndpoint,
  options: DisableOptions,
): Promise<void> {
  const disabled = await transaction(options.pool, async (db) => {
    const current = await lockEndpoint(db, tenantId, endpointId);
    // A response of an earlier URL says nothing about the current one.
    return current !== undefined && current.url === url && mayMove("gone", current)
      ? await move(db, current, { name: "gone", details: {} }, options)
      : undefined;
  });
  report(disabled, options);
}

/** Disables the endpoint, and reports it to the tenant's other endpoints and the compliance log. Returns fields to log. */
async function move(
  db: Queryable,
  endpoint: Endpoint,
  {
    name,
    details: further,
  }: { readonly name: "fail" | "gone"; readonly details: Readonly<Record<string, string>> },
  options: DisableOptions,
): Promise<object> {
  const { tenant_id: tenantId, id } = endpoint;
  const now = new Date(options.clock.now());
  await moveEndpoint(db, { tenantId, id, now }, name);
  const details = { reason: ENDPOINT_MOVES[name].to.disabled_reason, ...further };
  const data = JSON.stringify({ endpoint_id: id, ...details, disabled_at: now.toISOString() });
  await publishOwnEvent(db, { tenantId, type: "endpoint.disabled", data, except: id }, options);
  const streamId = streamOf(endpoint);
  const stream = streamId === null ? undefined : await findStream(db, tenantId, streamId);
  if (stream !== undefined) {
    // It waits as a dead letter until the receiver enables the stream again.
    const reason = `the endpoint is disabled: ${details.reason}`;
    await publishStreamUpdated(db, stream, { status: "paused", reason }, options);
  }
  await appendEntry(
    db,
    { actor: "system:worker", type: "endpoint.disabled", tenant: tenantId, target: id, details },
    options,
  );
  return { tenant_id: tenantId, endpoint_id: id, ...details };
}

/** Returns the jobs that disable endpoints that have failed for days. They check more often if the limit is short. */
export function failureJobs(
  options: DisableOptions,
  failures: EndpointFailures,
  afterMs: DisableFailingOptions["afterMs"],
): readonly UpkeepJob[] {
  const write = async (): Promise<void> => await writeFailures(options.pool, failures);
  return [
    { name: "endpoint failures", everyMs: WRITE_MS, run: write, end: write },
    {
      name: "failing endpoints",
      everyMs: Math.min(DISABLE_MS, Math.max(WRITE_MS, afterMs / 100)),
      run: async () => await disableFailing({ ...options, afterMs }),
    },
  ];
}
