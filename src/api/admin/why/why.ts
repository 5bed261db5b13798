/** Explains objects of tenants to operators, in words and as data. */
import type { FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import { replayWorkflowId, verifyWorkflowId } from "#workflows/messages.ts";
import { type Endpoint, findEndpoint, listEndpoints } from "#database/repositories/endpoints/endpoints.ts";
import { findSlow } from "#database/repositories/health.ts";
import { findById, kindOfId } from "#database/repositories/operator-finds.ts";
import { listWorkers, readLagOf } from "#database/repositories/operator-overview.ts";
import { findTenant } from "#database/repositories/tenants.ts";
import { findDelivery, listAttempts, listDeliveries } from "#database/repositories/webhooks/deliveries.ts";
import { countWaitingBefore, findEventFacts } from "#database/repositories/webhooks/explained.ts";
import type { Queryable } from "#database/pool.ts";
import { findActivity, listUnhealthy } from "#database/repositories/webhooks/delivery-counts.ts";
import { findReplayJob } from "#database/repositories/webhooks/replay-jobs.ts";
import { found } from "#domain/errors.ts";
import { Closed, Formed, Id, Nullable, OneOf, Resource, Takes } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import { operation } from "#api/openapi/operation.ts";
import type { AdminServices } from "../services.ts";
import { readOnRecord } from "../tenant-reads.ts";
import { explainDelivery } from "./explain-delivery.ts";
import { explainEndpoint, explainEvent, explainReplay, explainTenant } from "./explain-others.ts";
import { CAUSES, type Explanation, OVERDUE_AFTER_MS, paragraph, type Surroundings } from "./explanation.ts";

/** A worker that was not seen for this long is not alive, in milliseconds. */
export const WORKER_ALIVE_MS = 5_000;
const ATTEMPTS_MAX = 500;
const LISTED_MAX = 100;

const EXPLAINED_KINDS = ["delivery", "endpoint", "event", "replay", "tenant"] as const;
type ExplainedKind = (typeof EXPLAINED_KINDS)[number];

/** An id of one of the explained kinds. */
export const ExplainedId = Formed(
  {
    pattern: "^(dlv|ep|evt|rpl|ten)_[0-9a-hjkmnp-tv-z]{24}$",
    wanted:
      "the id of a delivery, an endpoint, an event, a replay job or a tenant (dlv_, ep_, evt_, rpl_ or ten_ and 24 characters)",
    shown: true,
  },
  {
    description: "Id of a delivery, an endpoint, an event, a replay job or a tenant",
    examples: ["dlv_01jd3c5xq8m2v7k9r4t6w0zy"],
    ...Takes("delivery", "endpoint", "event", "replay", "tenant"),
  },
);

const Why = Resource("Explanation", {
  id: Type.String(),
  kind: OneOf(EXPLAINED_KINDS),
  tenant_id: Id("tenant"),
  tenant_name: Type.String(),
  state: Nullable(Type.String()),
  cause: OneOf(CAUSES),
  waits_until: Nullable(
    Type.String({ format: "date-time", description: "When the wait ends by itself; null if it does not" }),
  ),
  summary: Type.String({ description: "What happened, what waits for what, until when, and what to do" }),
  advice: Type.String({ description: "The end of `summary`: what to do" }),
});

export type WhyServices = Pick<
  AdminServices,
  "pool" | "tenantPool" | "readAudit" | "clock" | "checkTemporal" | "findPause"
>;

/** Reads the state of the deployment around a tenant's object. */
async function surroundingsOf(
  { pool, clock, checkTemporal }: WhyServices,
  tenantId: string,
): Promise<Surroundings> {
  const [tenant, workers, temporalReachable] = await Promise.all([
    findTenant(pool, tenantId),
    listWorkers(pool),
    checkTemporal().then(
      () => true,
      () => false,
    ),
  ]);
  const now = new Date(clock.now());
  const live = workers.filter(({ seen_at: seenAt }) => now.getTime() - seenAt.getTime() < WORKER_ALIVE_MS);
  return {
    now,
    tenant: found(tenant, "tenant"),
    workers: { live: live.length, lastSeenAt: workers[0]?.seen_at ?? null },
    temporalReachable,
  };
}

type Explain = (
  db: Queryable,
  of: { readonly id: string; readonly tenantId: string },
  around: Surroundings,
) => Promise<Explanation>;

/** Returns how each kind is explained; `db` is a read of the tenant. */
function explainers({ pool, findPause }: WhyServices): Readonly<Record<ExplainedKind, Explain>> {
  const slowUntil = async (id: string, { now }: Surroundings) => (await findSlow(pool, [id], now)).get(id);
  const pauseOf = async (workflowId: string | null, { temporalReachable }: Surroundings) =>
    workflowId !== null && temporalReachable ? await findPause(workflowId).catch(() => undefined) : undefined;
  const pauseOfPings = async (endpoint: Endpoint | undefined, around: Surroundings) =>
    await pauseOf(
      endpoint?.state === "PENDING" ? verifyWorkflowId(endpoint.id, endpoint.generation) : null,
      around,
    );
  return {
    delivery: async (db, { id, tenantId }, around) => {
      const delivery = found(await findDelivery(db, { tenantId, id, now: around.now }), "delivery");
      const page = { after: { cycle: delivery.cycle - 1, attempt: ATTEMPTS_MAX }, limit: ATTEMPTS_MAX };
      const isOpen = delivery.state === "QUEUED" || delivery.state === "RETRYING";
      const endpoint = await findEndpoint(db, tenantId, delivery.endpoint_id);
      const facts = {
        delivery,
        attempts: await listAttempts(db, { tenantId, deliveryId: id }, page),
        endpoint,
        slowUntil: await slowUntil(delivery.endpoint_id, around),
        pause: await pauseOf(isOpen ? delivery.workflow_id : null, around),
        verificationPause: await pauseOfPings(isOpen ? endpoint : undefined, around),
        waitingBefore: delivery.state === "QUEUED" ? await countWaitingBefore(db, tenantId, id) : 0,
      };
      return explainDelivery(facts, around);
    },
    endpoint: async (db, { id, tenantId }, around) => {
      const endpoint = found(await findEndpoint(db, tenantId, id), "endpoint");
      const of = { tenantId, endpointIds: [id], now: around.now };
      const activity = found((await findActivity(db, of)).get(id), "endpoint");
      const [slow, pause] = [await slowUntil(id, around), await pauseOfPings(endpoint, around)];
      return explainEndpoint({ endpoint, activity, slowUntil: slow, pause }, around);
    },
    event: async (db, { id, tenantId }, around) => {
      const event = found(await findEventFacts(db, tenantId, id), "event");
      const page = { filter: { eventId: id }, before: undefined, limit: LISTED_MAX, now: around.now };
      const states = (await listDeliveries(db, { tenantId, ...page })).rows.map(({ state }) => state);
      const deliveries = Object.fromEntries(
        [...new Set(states)].map((state) => [state, states.filter((other) => other === state).length]),
      );
      const endpoints = await listEndpoints(db, tenantId, ALL_ENDPOINTS);
      return explainEvent({ event, deliveries, endpoints }, around);
    },
    replay: async (db, { id, tenantId }, around) => {
      const job = found(await findReplayJob(db, tenantId, id), "replay");
      const workflowId = job.finished_at === null ? replayWorkflowId(id) : null;
      return explainReplay({ job, pause: await pauseOf(workflowId, around) }, around);
    },
    tenant: async (db, { tenantId }, around) => {
      const dueBefore = new Date(around.now.getTime() - OVERDUE_AFTER_MS);
      const endpoints = await listEndpoints(db, tenantId, ALL_ENDPOINTS);
      const unhealthy = await listUnhealthy(db, tenantId);
      const failing = unhealthy.filter(({ health }) => health === "failing").map(({ endpoint_id: id }) => id);
      const lag = await readLagOf(db, tenantId, dueBefore);
      return explainTenant({ lag, endpoints, failing }, around);
    },
  };
}

const ALL_ENDPOINTS = { metadata: undefined, before: undefined, limit: LISTED_MAX };

/** Explains an object, on record. */
export async function explainOnRecord(
  request: FastifyRequest,
  services: WhyServices,
  id: string,
): Promise<Static<typeof Why>> {
  const object = found(await findById(services.pool, id), kindOfId(id) ?? "object");
  const kind = object.kind as ExplainedKind;
  const { tenant_id: tenantId } = object;
  const around = await surroundingsOf(services, tenantId);
  const explanation = await readOnRecord(
    request,
    { tenantId, target: id },
    services,
    async (db) => await explainers(services)[kind](db, { id: object.id, tenantId }, around),
  );
  return {
    id,
    kind,
    tenant_id: tenantId,
    tenant_name: object.tenant_name,
    state: object.state,
    cause: explanation.cause,
    waits_until: explanation.waitsUntil?.toISOString() ?? null,
    summary: paragraph(explanation),
    advice: explanation.advice,
  };
}

export function registerWhy(server: SignetServer, services: WhyServices): void {
  server.get(
    "/admin/v1/why/:id",
    operation({
      id: "explain",
      tag: "support",
      operator: "read",
      audits: "tenant.read",
      summary: "Explain a delivery, an endpoint, an event, a replay job or a tenant",
      description:
        "Says in words what happened, what waits for what, until when, and what to do: holds, endpoints that are disabled, unverified, slow or rate limited, missing workers, Temporal, workflows that are paused there, overdue retries, and why an event matched no endpoint. `cause` is stable, for scripts. An entry `tenant.read` in the tenant's compliance log records the read.",
      params: Closed({ id: ExplainedId }),
      response: { 200: Why },
    }),
    async (request) => await explainOnRecord(request, services, request.params.id),
  );
}
