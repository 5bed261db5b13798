/**
 * Reads of tenants' endpoints, deliveries and events by operators. Each read is an entry of the compliance log, which its
 * tenant sees, before anything is returned. It runs with the role signet_api, confined to that tenant by row-level
 * security. No route returns content: events' data, responses of receivers, and endpoints' headers and metadata.
 */
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { Queryable } from "#database/pool.ts";
import { type Endpoint, findEndpoint, listEndpoints } from "#database/repositories/endpoints/endpoints.ts";
import { findSlow } from "#database/repositories/health.ts";
import { findById } from "#database/repositories/operator-finds.ts";
import { listGroups } from "#database/repositories/webhooks/dead-letter-counts.ts";
import { findDelivery, listAttempts, listDeliveries } from "#database/repositories/webhooks/deliveries.ts";
import { findActivity, type ReportedActivity } from "#database/repositories/webhooks/delivery-counts.ts";
import { readDeliveryHours } from "#database/repositories/webhooks/delivery-hours.ts";
import { findEventFacts } from "#database/repositories/webhooks/explained.ts";
import { listReplayJobs } from "#database/repositories/webhooks/replay-jobs.ts";
import { findTenant } from "#database/repositories/tenants.ts";
import { tenantRead } from "#database/transaction.ts";
import { DISABLED_REASONS, ENDPOINT_STATES } from "#domain/endpoint-state.ts";
import { found } from "#domain/errors.ts";
import {
  Closed,
  Id,
  IdParams,
  List,
  Nullable,
  OneOf,
  Page,
  PageQuery,
  Resource,
  Timestamp,
} from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import { DeliveryStats } from "#webhooks/engine/delivery-stats.ts";
import { operation } from "../openapi/operation.ts";
import { OperatorEvent, toOperatorEvent } from "../schemas/events.ts";
import { nextCursor, readPage, toPage } from "../pagination.ts";
import { deliveryFilter } from "../routes/deliveries.ts";
import { toHour, Stats } from "../routes/delivery-stats.ts";
import {
  Attempt,
  DeadLetterGroup,
  Delivery,
  DeliveryFilters,
  toAttempt,
  toDeadLetterGroup,
} from "../schemas/deliveries.ts";
import { Health, toHealth } from "../schemas/endpoints.ts";
import { toReplay, ReplayJob } from "../schemas/replays.ts";
import type { AdminServices } from "./services.ts";
import { shownUrl } from "./why/explanation.ts";
import { presenter } from "#http/present.ts";

const OPERATION = { tag: "support", operator: "read", audits: "tenant.read" } as const;
const ON_RECORD = " An entry `tenant.read` in the tenant's compliance log records the read.";
/** Attempts of all cycles, at most. */
const ATTEMPTS_MAX = 500;
const GROUPS_MAX = 1_000;

type TenantReadServices = Pick<AdminServices, "pool" | "tenantPool" | "readAudit" | "clock">;

const OperatorEndpoint = Resource("Endpoint", {
  id: Id("endpoint"),
  tenant_id: Id("tenant"),
  url: Type.String({ description: "Without its query, which may hold a secret" }),
  events: Type.Array(Type.String()),
  filtered: Type.Boolean({ description: "Whether a filter selects its events" }),
  state: OneOf(ENDPOINT_STATES),
  disabled_reason: Nullable(OneOf(DISABLED_REASONS)),
  rate_limit: Nullable(Type.Integer()),
  health: Health,
  slow_until: Nullable(
    Type.String({ format: "date-time", description: "Until then its deliveries leave one after another" }),
  ),
  verification: Type.Object({
    attempts: Type.Integer(),
    last_error: Nullable(Type.String()),
    next_attempt_at: Nullable(Timestamp),
    verified_at: Nullable(Timestamp),
  }),
  created_at: Timestamp,
  updated_at: Timestamp,
});

const OperatorDelivery = Resource("Delivery", { ...Delivery.properties, tenant_id: Id("tenant") });
const toOperatorDelivery = presenter(OperatorDelivery);
const { response_body: _content, ...attemptMembers } = Attempt.properties;
const OperatorAttempt = Resource("Attempt", attemptMembers);

/** An endpoint with its activity, and until when it counts as slow. */
interface ReadEndpoint {
  readonly row: Endpoint;
  readonly activity: ReportedActivity;
  readonly slowUntil: Date | undefined;
}

function toEndpoint({ row, activity, slowUntil }: ReadEndpoint) {
  return {
    id: row.id,
    tenant_id: row.tenant_id,
    url: shownUrl(row.url),
    events: [...row.event_types],
    filtered: row.filter !== null,
    state: row.state as (typeof ENDPOINT_STATES)[number],
    disabled_reason: row.disabled_reason,
    rate_limit: row.rate_limit,
    health: toHealth(row.state, activity),
    slow_until: slowUntil?.toISOString() ?? null,
    verification: {
      attempts: row.verification_attempts,
      last_error: row.verification_last_error,
      next_attempt_at: row.verification_next_attempt_at?.toISOString() ?? null,
      verified_at: row.verified_at?.toISOString() ?? null,
    },
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

/** Reads what the endpoints' rows do not have. */
async function withActivity(
  db: Queryable,
  { pool, clock }: TenantReadServices,
  { tenantId, rows }: { readonly tenantId: string; readonly rows: readonly Endpoint[] },
): Promise<ReturnType<typeof toEndpoint>[]> {
  const now = new Date(clock.now());
  const endpointIds = rows.map(({ id }) => id);
  const activity = await findActivity(db, { tenantId, endpointIds, now });
  const slow = await findSlow(pool, endpointIds, now);
  return rows.flatMap((row) => {
    const found = activity.get(row.id);
    return found === undefined ? [] : [toEndpoint({ row, activity: found, slowUntil: slow.get(row.id) })];
  });
}

/** What an operator reads: one object of the tenant, or the tenant itself. */
interface ReadOf {
  readonly tenantId: string;
  readonly target: string;
}

/** Records the read, then runs it in a transaction that sees only the tenant's rows. */
export async function readOnRecord<T>(
  request: FastifyRequest,
  { tenantId, target }: ReadOf,
  { readAudit, tenantPool }: Pick<TenantReadServices, "readAudit" | "tenantPool">,
  read: (db: Queryable) => Promise<T>,
): Promise<T> {
  const { operator, id: requestId, routeOptions } = request;
  const { operationId: operation } = routeOptions.schema as { readonly operationId: string };
  await readAudit.noteTenant({ operatorId: operator.id, tenantId, target, operation, requestId });
  return await tenantRead(tenantPool, tenantId, read);
}

type Reader = <T>(
  request: FastifyRequest<{ Params: { readonly id: string } }>,
  read: (db: Queryable, of: { readonly tenantId: string; readonly id: string }) => Promise<T>,
) => Promise<T>;

/** Returns the reader of a tenant's lists. */
function readerOfTenant(services: TenantReadServices): Reader {
  return async (request, read) => {
    const { id } = found(await findTenant(services.pool, request.params.id), "tenant");
    const of = { tenantId: id, target: id };
    return await readOnRecord(request, of, services, async (db) => await read(db, { tenantId: id, id }));
  };
}

/** Returns the reader of one object, whose tenant it finds. */
function readerOfObject(services: TenantReadServices, noun: "delivery" | "endpoint" | "event"): Reader {
  return async (request, read) => {
    const { id, tenant_id: tenantId } = found(await findById(services.pool, request.params.id), noun);
    const of = { tenantId, target: id };
    return await readOnRecord(request, of, services, async (db) => await read(db, { tenantId, id }));
  };
}

export function registerTenantReads(server: SignetServer, services: TenantReadServices): void {
  registerEndpointReads(server, services);
  registerDeliveryList(server, services);
  registerDeliveryReads(server, services);
  registerEventRead(server, services);
  registerLists(server, services);
  registerStats(server, services);
}

function registerEndpointReads(server: SignetServer, services: TenantReadServices): void {
  const ofTenant = readerOfTenant(services);
  const ofEndpoint = readerOfObject(services, "endpoint");
  server.get(
    "/admin/v1/tenants/:id/endpoints",
    operation({
      ...OPERATION,
      id: "listTenantEndpoints",
      summary: "List a tenant's endpoints",
      description: `Newest first, with their failures.${ON_RECORD}`,
      params: IdParams("tenant"),
      querystring: Closed({ state: Type.Optional(OneOf(ENDPOINT_STATES)), ...PageQuery }),
      response: { 200: Page(OperatorEndpoint) },
    }),
    async (request) => {
      const page = readPage(request);
      const { state } = request.query;
      const shown = await ofTenant(request, async (db, { tenantId }) => {
        const before = page.before ?? undefined;
        const rows = await listEndpoints(db, tenantId, {
          state,
          metadata: undefined,
          before,
          limit: page.limit + 1,
        });
        return await withActivity(db, services, { tenantId, rows });
      });
      return toPage(shown, page);
    },
  );

  server.get(
    "/admin/v1/endpoints/:id",
    operation({
      ...OPERATION,
      id: "getTenantEndpoint",
      summary: "Read an endpoint",
      description: `The path needs only its id.${ON_RECORD}`,
      params: IdParams("endpoint"),
      response: { 200: OperatorEndpoint },
    }),
    async (request) =>
      await ofEndpoint(request, async (db, { tenantId, id }) => {
        const row = found(await findEndpoint(db, tenantId, id), "endpoint");
        const [shown] = await withActivity(db, services, { tenantId, rows: [row] });
        return found(shown, "endpoint");
      }),
  );
}

function registerDeliveryList(server: SignetServer, services: TenantReadServices): void {
  const ofTenant = readerOfTenant(services);
  server.get(
    "/admin/v1/tenants/:id/deliveries",
    operation({
      ...OPERATION,
      id: "listTenantDeliveries",
      summary: "List a tenant's deliveries",
      description: `Newest first, with the filters of \`GET /v1/webhooks/deliveries\`; \`state=DEAD_LETTERED\` lists dead letters.${ON_RECORD}`,
      params: IdParams("tenant"),
      querystring: Closed({ ...DeliveryFilters, ...PageQuery }),
      response: { 200: Page(OperatorDelivery) },
    }),
    async (request) => {
      const page = readPage(request);
      const filter = deliveryFilter(request.query);
      return await ofTenant(request, async (db, { tenantId }) => {
        const before = page.before ?? undefined;
        const found = await listDeliveries(db, {
          tenantId,
          filter,
          before,
          limit: page.limit,
          now: new Date(services.clock.now()),
        });
        const data = found.rows.map((row) => toOperatorDelivery({ ...row, tenant_id: tenantId }));
        return { data, next_cursor: nextCursor(found, page) };
      });
    },
  );
}

function registerDeliveryReads(server: SignetServer, services: TenantReadServices): void {
  const ofDelivery = readerOfObject(services, "delivery");
  server.get(
    "/admin/v1/deliveries/:id",
    operation({
      ...OPERATION,
      id: "getTenantDelivery",
      summary: "Read a delivery",
      description: `The path needs only its id. \`GET /admin/v1/why/{id}\` explains it.${ON_RECORD}`,
      params: IdParams("delivery"),
      response: { 200: OperatorDelivery },
    }),
    async (request) =>
      await ofDelivery(request, async (db, { tenantId, id }) =>
        toOperatorDelivery({
          ...found(await findDelivery(db, { tenantId, id, now: new Date(services.clock.now()) }), "delivery"),
          tenant_id: tenantId,
        }),
      ),
  );

  server.get(
    "/admin/v1/deliveries/:id/attempts",
    operation({
      ...OPERATION,
      id: "listTenantAttempts",
      summary: "List a delivery's attempts",
      description: `Oldest first, without the receiver's responses.${ON_RECORD}`,
      params: IdParams("delivery"),
      response: { 200: List(OperatorAttempt) },
    }),
    async (request) =>
      await ofDelivery(request, async (db, { tenantId, id }) => {
        const page = { after: { cycle: 0, attempt: 0 }, limit: ATTEMPTS_MAX };
        const rows = await listAttempts(db, { tenantId, deliveryId: id }, page);
        const shown = rows.map(({ response: _sealed, ...row }) => toAttempt({ ...row, response_body: null }));
        return { data: shown.map(({ response_body: _never, ...attempt }) => attempt) };
      }),
  );
}

function registerEventRead(server: SignetServer, services: TenantReadServices): void {
  const ofEvent = readerOfObject(services, "event");
  server.get(
    "/admin/v1/events/:id",
    operation({
      ...OPERATION,
      id: "getTenantEvent",
      summary: "Read an event without its data",
      description: `\`GET /admin/v1/tenants/{id}/deliveries?event_id=\` lists its deliveries.${ON_RECORD}`,
      params: IdParams("event"),
      response: { 200: OperatorEvent },
    }),
    async (request) =>
      await ofEvent(request, async (db, { tenantId, id }) =>
        toOperatorEvent(found(await findEventFacts(db, tenantId, id), "event")),
      ),
  );
}

function registerLists(server: SignetServer, services: TenantReadServices): void {
  const ofTenant = readerOfTenant(services);
  server.get(
    "/admin/v1/tenants/:id/dead-letters",
    operation({
      ...OPERATION,
      id: "listTenantDeadLetters",
      summary: "Count a tenant's dead letters by endpoint and class of failure",
      description: `Reads stored counts, the first 1,000.${ON_RECORD}`,
      params: IdParams("tenant"),
      response: { 200: List(DeadLetterGroup) },
    }),
    async (request) =>
      await ofTenant(request, async (db, { tenantId }) => {
        const page = { endpointId: undefined, after: undefined, limit: GROUPS_MAX };
        return { data: (await listGroups(db, tenantId, page)).map(toDeadLetterGroup) };
      }),
  );

  server.get(
    "/admin/v1/tenants/:id/replays",
    operation({
      ...OPERATION,
      id: "listTenantReplays",
      summary: "List a tenant's replay jobs",
      description: `Newest first, with their progress.${ON_RECORD}`,
      params: IdParams("tenant"),
      querystring: Closed(PageQuery),
      response: { 200: Page(ReplayJob) },
    }),
    async (request) => {
      const page = readPage(request);
      return await ofTenant(request, async (db, { tenantId }) => {
        const rows = await listReplayJobs(db, tenantId, { before: page.before, limit: page.limit + 1 });
        return toPage(rows.map(toReplay), page);
      });
    },
  );
}

function registerStats(server: SignetServer, services: TenantReadServices): void {
  const ofTenant = readerOfTenant(services);
  const stats = new DeliveryStats({
    clock: services.clock,
    read: async (of, hours) =>
      await tenantRead(
        services.tenantPool,
        of.tenantId,
        async (db) => await readDeliveryHours(db, of, hours),
      ),
  });
  server.get(
    "/admin/v1/tenants/:id/stats",
    operation({
      ...OPERATION,
      id: "getTenantStats",
      summary: "A tenant's deliveries of the last 24 hours, by hour",
      description: `As \`GET /v1/webhooks/stats\`; the numbers may be 30 seconds old.${ON_RECORD}`,
      params: IdParams("tenant"),
      querystring: Closed({ endpoint_id: DeliveryFilters.endpoint_id }),
      response: { 200: Stats },
    }),
    async (request) => {
      const { endpoint_id: endpointId } = request.query;
      const { tenantId } = await ofTenant(request, async (_db, of) => await Promise.resolve(of));
      return { data: (await stats.of({ tenantId, endpointId })).map(toHour) };
    },
  );
}
