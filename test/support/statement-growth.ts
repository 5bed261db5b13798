/** The statements whose cost a tenant can grow, by what it grows, and how they are promised to grow. */
import { listEndpoints } from "#database/repositories/endpoints/endpoints.ts";
import { createClientLookup } from "#database/repositories/tokens/clients.ts";
import { listTenantCredentials } from "#database/repositories/tokens/credentials.ts";
import {
  readAllRevocations,
  readRevocationNews,
  readRevocationSnapshot,
} from "#database/repositories/tokens/followed-revocations.ts";
import { forgetTokenRevocations } from "#database/repositories/tokens/revocations.ts";
import { insertPlacedTokens, readRevokedPlaces } from "#database/repositories/tokens/status-lists.ts";
import { foldChanges, listGroups } from "#database/repositories/webhooks/dead-letter-counts.ts";
import { findActivity, foldCounts } from "#database/repositories/webhooks/delivery-counts.ts";
import { findCarriersOfLetters } from "#database/repositories/webhooks/reconciliation.ts";
import { countSelected } from "#database/repositories/webhooks/replay-items.ts";
import { DAY_MS, utcDay } from "#domain/ids.ts";
import { COMPARED_MAX } from "#webhooks/replay/replay-service.ts";
import {
  fillCredentials,
  fillDeliveries,
  fillEndpoints,
  fillKeys,
  FILLED_TYPE,
  fillTenants,
  unwatched,
} from "./many-rows.ts";
import {
  type Axis,
  type Filled,
  LIMIT,
  RETENTION_DAYS,
  OTHER_ENDPOINT,
  OTHER_TYPE,
  within,
  publish,
  match,
  listOf,
  eventsOf,
  worker,
  rounds,
  largerClaim,
  queues,
  purge,
} from "./growing-statements.ts";
import { fillRevocations } from "./many-revocations.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

/** Deliveries that wait beside others that do not. */
const FEW = 20;
/** Ends the deliveries that waited, but a few, as after a backlog; the index keeps their pages until the day ends. */
async function drain({ owner, tenantId, size }: Filled, endpointId: string): Promise<void> {
  const ids = await fillDeliveries(owner, { tenantId, endpointId, state: "QUEUED", count: size });
  await unwatched(owner, async () => {
    await owner.query(
      `UPDATE deliveries SET state = 'DELIVERED', carrier = 'bat_gone', delivered_at = now(), attempt_count = 1
        WHERE id = ANY ($1)`,
      [ids.slice(FEW)],
    );
  });
}

/** Gives as many further tenants one delivery each. */
async function fillForTenants({ owner, size, endpointId }: Filled, state: "QUEUED" | "DELIVERED") {
  const tenants = await fillTenants(owner, size);
  const [tenantId = ""] = tenants;
  const ids = await fillDeliveries(owner, { tenantId, endpointId, state, count: size });
  await unwatched(owner, async () => {
    await owner.query(
      `UPDATE deliveries d SET tenant_id = w.tenant_id FROM unnest($1::text[], $2::text[]) AS w(id, tenant_id)
        WHERE d.id = w.id`,
      [ids, tenants],
    );
  });
}

export const AXES: Readonly<Record<string, Axis>> = {
  "endpoints that match": {
    size: 100,
    fill: async ({ owner, tenantId, size }) =>
      await fillEndpoints(owner, { tenantId, count: size, type: FILLED_TYPE }),
    statements: {
      match: { ...match, growth: "linear" },
      publish: { ...publish, growth: "linear" },
      "a page of endpoints": {
        growth: "flat",
        role: "signet_api",
        run: async ({ db, tenantId }) =>
          await listEndpoints(db, tenantId, { metadata: undefined, before: undefined, limit: 20 }),
      },
    },
  },
  "endpoints that do not match": {
    size: 100,
    fill: async ({ owner, tenantId, size }) =>
      await fillEndpoints(owner, { tenantId, count: size, type: OTHER_TYPE }),
    statements: { match: { ...match, growth: "linear" }, publish: { ...publish, growth: "linear" } },
  },
  "stored deliveries": {
    // A page reads up to 5,000 rows.
    size: 6_000,
    fill: async ({ owner, tenantId, endpointId, size }) =>
      await fillDeliveries(owner, { tenantId, endpointId, state: "DELIVERED", count: size }),
    statements: {
      ...rounds,
      publish: { ...publish, growth: "flat" },
      "a page of deliveries": listOf({}),
      ...Object.fromEntries(
        (["QUEUED", "RETRYING", "DELIVERED", "DEAD_LETTERED", "EXPIRED", "CANCELLED"] as const).map(
          (state) => [`a list of ${state}`, listOf({ state })],
        ),
      ),
      "a list by endpoint, without a match": listOf({ endpointId: OTHER_ENDPOINT }),
      "a list by type, without a match": listOf({ eventType: OTHER_TYPE }),
      "a list by last_status, without a match": listOf({ lastStatus: 500 }),
      "a list by last_error, without a match": listOf({ lastError: "timeout" }),
      "a list by reason, without a match": listOf({ reason: "endpoint_disabled" }),
      "a list by metadata, without a match": listOf({ metadata: { a: "b" } }),
      "a page of events": eventsOf({}),
      "a list of events by type, without a match": eventsOf({ type: OTHER_TYPE }),
      "the state of endpoints": {
        growth: "flat",
        role: "signet_api",
        run: async ({ db, tenantId, endpointId, now }) =>
          await findActivity(db, { tenantId, endpointIds: [endpointId], now }),
      },
      "the operators' queues": { ...queues, growth: "flat" },
    },
  },
  "a backlog": {
    size: 2_000,
    fill: async ({ owner, tenantId, endpointId, size }) =>
      await fillDeliveries(owner, { tenantId, endpointId, state: "QUEUED", count: size }),
    statements: {
      ...rounds,
      publish: { ...publish, growth: "flat" },
      "a list of QUEUED": listOf({ state: "QUEUED" }),
      "the operators' queues": queues,
    },
  },
  "a backlog that has drained, analysed while a few wait": {
    size: 2_000,
    fill: async (filled) => {
      await drain(filled, filled.endpointId);
      await fillForTenants(filled, "DELIVERED");
    },
    statements: rounds,
  },
  "tenants that wait": {
    size: 1_000,
    fill: async (filled) => await fillForTenants(filled, "QUEUED"),
    statements: rounds,
  },
  "deliveries of a claim": {
    size: 30,
    fill: async ({ owner, tenantId, endpointId }) =>
      await fillDeliveries(owner, { tenantId, endpointId, state: "QUEUED", count: 2_000 }),
    statements: { "the claim": largerClaim },
  },
  "dead letters": {
    size: 2_000,
    fill: async ({ owner, tenantId, endpointId, size }) =>
      await fillDeliveries(owner, { tenantId, endpointId, state: "DEAD_LETTERED", count: size }),
    statements: {
      ...rounds,
      publish: { ...publish, growth: "flat" },
      "a list of DEAD_LETTERED": listOf({ state: "DEAD_LETTERED" }),
      "groups of them": {
        growth: "flat",
        role: "signet_api",
        run: async ({ db, tenantId }) =>
          await listGroups(db, tenantId, { endpointId: undefined, after: undefined, limit: LIMIT }),
      },
      "the carriers of them": worker(
        "flat",
        async ({ db }) => await findCarriersOfLetters(db, { after: "", letters: 1_000, carriers: LIMIT }),
      ),
      "the count for a replay": {
        growth: "linear",
        role: "signet_api",
        run: async ({ db, tenantId, now }) =>
          await countSelected(db, { tenantId, selection: { filter: {} }, now }, COMPARED_MAX),
      },
      "a bounded count for a replay": {
        growth: "flat",
        role: "signet_api",
        run: async ({ db, tenantId, now }) =>
          await countSelected(db, { tenantId, selection: { filter: { lastStatus: 999 } }, now }, 1_000),
      },
    },
  },
  "open retries": {
    size: 2_000,
    fill: async ({ owner, tenantId, endpointId, size }) =>
      await fillDeliveries(owner, { tenantId, endpointId, state: "RETRYING", count: size }),
    statements: {
      ...rounds,
      publish: { ...publish, growth: "flat" },
      "a list of RETRYING": listOf({ state: "RETRYING" }),
    },
  },
  "retries without a list": {
    size: 2_000,
    fill: async ({ owner, tenantId, endpointId, size }) => {
      await fillDeliveries(owner, { tenantId, endpointId, state: "RETRYING", count: size });
      await unwatched(owner, async () => void (await owner.query("UPDATE deliveries SET carrier = NULL")));
    },
    statements: rounds,
  },
  "counts that are not folded": {
    size: 1_000,
    fill: async ({ owner, tenantId, endpointId, size }) => {
      const made = "FROM generate_series(1, $3::int) n";
      await owner.query(
        `INSERT INTO delivery_changes (tenant_id, endpoint_id, event_type, hour, accepted)
          SELECT $1, $2, 'type_' || n % 10, date_trunc('hour', now()), 1 ${made}`,
        [tenantId, endpointId, size],
      );
      await owner.query(
        `INSERT INTO dead_letter_changes (tenant_id, endpoint_id, delivery_id, event_type, reason, last_error, change)
          SELECT $1, $2, 'dlv_' || n, 'type', 'attempts_exhausted', 'status', 1 ${made}`,
        [tenantId, endpointId, size],
      );
    },
    statements: {
      "the fold of counts": worker("linear", async ({ db, size }) => {
        await foldCounts(db, size);
      }),
      "the fold of dead letters": worker(
        "linear",
        async ({ db, size, now }) => await foldChanges(db, { now, limit: size }),
      ),
      "the state of endpoints": {
        growth: "linear",
        role: "signet_api",
        run: async ({ db, tenantId, endpointId, now }) =>
          await findActivity(db, { tenantId, endpointIds: [endpointId], now }),
      },
    },
  },
  "expired keys": {
    size: 2_000,
    fill: async ({ owner, tenantId, size }) => await fillKeys(owner, tenantId, size),
    statements: {
      publish: { ...publish, growth: "flat" },
      "all steps": {
        growth: "linear",
        role: "signet_worker",
        commits: true,
        run: async (run) => await purge(run),
      },
    },
  },
  "deliveries of a day that ends": {
    size: 5_000,
    fill: async ({ owner, tenantId, endpointId, size }) => {
      const atMs = Date.now() - (RETENTION_DAYS + 2) * DAY_MS;
      await owner.query("SELECT ensure_day_partitions($1, 1)", [utcDay(atMs)]);
      await fillDeliveries(owner, { tenantId, endpointId, state: "DELIVERED", count: size, atMs });
    },
    statements: {
      "dropping it": {
        growth: "linear",
        role: "signet_worker",
        commits: true,
        run: async (run) => await purge(run),
      },
    },
  },
  credentials: {
    size: 1_000,
    fill: async ({ owner, tenantId, size }) => await fillCredentials(owner, tenantId, size),
    statements: {
      "the look-up for a token": {
        growth: "flat",
        role: "signet_issuer",
        commits: true,
        before: async ({ db }) => (await db.query("SELECT client_id FROM credentials LIMIT 1")).rows,
        run: async ({ cost }, before) => {
          const [{ client_id: id }] = before as [{ client_id: string }];
          const found = await createClientLookup(cost.pool("signet_issuer"), machineTimers)(id);
          if (found === undefined) {
            throw new Error("the client was not found");
          }
        },
      },
      "a page of credentials": {
        growth: "flat",
        role: "signet_api",
        run: async ({ db, tenantId }) =>
          await listTenantCredentials(db, tenantId, { limit: 20, before: null }),
      },
    },
  },
  revocations: {
    size: 5_000,
    fill: async ({ owner, size }) => await fillRevocations(owner, size),
    statements: {
      "the news of a follower": {
        growth: "flat",
        role: "signet_edge",
        run: async ({ db, size }) => await readRevocationNews(db, size - 1),
      },
      "all of them": {
        growth: "linear",
        role: "signet_edge",
        commits: true,
        run: async ({ db }) => await readAllRevocations(db, within, () => undefined),
      },
      "a snapshot": {
        growth: "linear",
        role: "signet_edge",
        commits: true,
        run: async ({ db }) => await readRevocationSnapshot(db, within),
      },
      "a status list": {
        growth: "linear",
        role: "signet_issuer",
        run: async ({ db }) => await readRevokedPlaces(db, 1),
      },
      "a step that removes ended ones": worker(
        "flat",
        async ({ db }) => await forgetTokenRevocations(db, 5_000),
      ),
    },
  },
  "tokens of a status list": {
    size: 2_000,
    fill: async ({ owner, size }) =>
      await owner.query(
        `INSERT INTO status_list_tokens (list, place, credential_id, issued_at)
          SELECT 1, n, 'crd_' || n % 100, 1 FROM generate_series(1, $1::int) n`,
        [size],
      ),
    statements: {
      "placing one": {
        growth: "flat",
        role: "signet_issuer",
        run: async ({ db, size }) => {
          const token = { list: 1, place: size + 1, credentialId: "crd_1", issuedAt: 1, certificate: null };
          await insertPlacedTokens(db, [token]);
        },
      },
      "the list": {
        growth: "flat",
        role: "signet_issuer",
        run: async ({ db }) => await readRevokedPlaces(db, 1),
      },
    },
  },
};
