/** The dead-letter queue and replay (contract 3 and 4). */
import { ATTEMPT_MAX, DEAD_LETTER_DAYS } from "#domain/retry-schedule.ts";
import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";
import { QUEUE_PLACE } from "#database/repositories/webhooks/deliveries.ts";
import type { DeliveryFilter } from "#database/repositories/webhooks/delivery-filter.ts";
import type { DeadLetter, DeliveryService } from "#webhooks/engine/delivery-service.ts";
import { SignetError, tooManyRequests } from "#domain/errors.ts";
import { Shares } from "#domain/shares.ts";
import type { RevocableToken } from "#revocation/deny-list.ts";
import { callerOf } from "#http/caller.ts";
import { nextCursor, readPage, toPage } from "../pagination.ts";
import { rawPage, sendRaw } from "#http/raw-json.ts";
import { Closed, IdParams, MetadataQuery, Page, PageQuery } from "#http/common.ts";
import {
  DeadLetter as DeadLetterSchema,
  DeadLetterGroup,
  DeadLetterSummary,
  Delivery,
  DeliveryFilters,
  DeliveryQuery,
  toDeadLetterGroup,
  toDeadLetterJson,
  toDeadLetterSummary,
  toDelivery,
} from "../schemas/deliveries.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import { breakOffUnlessAdmitted, type IsAdmitted } from "#http/while-admitted.ts";
import { deliveryFilter } from "./deliveries.ts";
import { toStoredEventJson } from "./events.ts";
import type { Timers } from "#domain/clock.ts";

function deadLetterJson({ delivery, event }: DeadLetter): string {
  return toDeadLetterJson(delivery, { event: event === null ? "null" : toStoredEventJson(event) });
}

/** The dependencies of the export's route. */
export interface DeadLetterExporting {
  readonly exportDeadLetters: ExportDeadLetters;
  /** Checks that the identity is not revoked. */
  readonly isAdmitted: (identity: RevocableToken) => Promise<boolean>;
}

export function registerDeadLetterRoutes(
  server: SignetServer,
  deliveries: DeliveryService,
  { exportDeadLetters, isAdmitted }: DeadLetterExporting,
): void {
  registerLists(server, deliveries);
  registerQueue(server, deliveries);
  registerGroups(server, deliveries);
  registerExport(server, { exportDeadLetters, isAdmitted });
  registerMembers(server, deliveries);
}

function registerLists(server: SignetServer, deliveries: DeliveryService): void {
  server.get(
    "/v1/webhooks/dlq",
    operation({
      id: "listDeadLetters",
      sdk: "deadLetters.list",
      tag: "dead letters",
      scopes: ["webhooks:read"],
      summary: "Read the dead-letter queue",
      description: `In the order of their death, newest first, including their events. A dead letter can be replayed for ${DEAD_LETTER_DAYS} days, until \`expires_at\`.`,
      querystring: Closed(DeliveryQuery),
      response: { 200: Page(DeadLetterSchema) },
    }),
    async (request, reply) => {
      const page = readPage(request, (key) => QUEUE_PLACE.test(key));
      const found = await deliveries.deadLetters(request.identity.tenantId, {
        filter: deliveryFilter(request.query),
        before: page.before ?? undefined,
        limit: page.limit,
      });
      const text = rawPage(found.rows.map(deadLetterJson), nextCursor(found, page));
      return await sendRaw(reply, 200, text);
    },
  );
}

function registerQueue(server: SignetServer, deliveries: DeliveryService): void {
  server.get(
    "/v1/webhooks/dlq/summary",
    operation({
      id: "getDeadLetterSummary",
      sdk: { name: "deadLetters.summary", typescript: { positional: true } },
      tag: "dead letters",
      scopes: ["webhooks:read"],
      summary: "Read the length and the age of the dead-letter queue",
      description: "Of all endpoints, or of one. The total is a stored count.",
      querystring: Closed({ endpoint_id: DeliveryQuery.endpoint_id }),
      response: { 200: DeadLetterSummary },
    }),
    async ({ identity, query }) =>
      toDeadLetterSummary(await deliveries.queue(identity.tenantId, query.endpoint_id)),
  );
}

/** The key of a group in a cursor: endpoint, reason, class of failure. */
const GROUP_KEY = /^(ep_[0-9a-hjkmnp-tv-z]{24})\/([a-z_]{1,32})\/([a-z]{0,16})$/;

function registerGroups(server: SignetServer, deliveries: DeliveryService): void {
  server.get(
    "/v1/webhooks/dlq/groups",
    operation({
      id: "listDeadLetterGroups",
      sdk: "deadLetters.groups",
      tag: "dead letters",
      scopes: ["webhooks:read"],
      summary: "Count dead letters by endpoint and class of failure",
      description: "Reads stored counts, so it stays fast with a million dead letters.",
      querystring: Closed({ endpoint_id: DeliveryQuery.endpoint_id, ...PageQuery }),
      response: { 200: Page(DeadLetterGroup) },
    }),
    async (request) => {
      const page = readPage(request, (key) => GROUP_KEY.test(key));
      const [, endpointId = "", reason = "", lastError = ""] = GROUP_KEY.exec(page.before ?? "") ?? [];
      const groups = await deliveries.groups(request.identity.tenantId, {
        endpointId: request.query.endpoint_id,
        after: page.before === null ? undefined : [endpointId, reason, lastError],
        limit: page.limit + 1,
      });
      const keyOf = (group: (typeof groups)[number]): string =>
        `${group.endpoint_id}/${group.reason}/${group.last_error ?? ""}`;
      const { data, next_cursor } = toPage(groups, page, keyOf);
      return {
        data: data.map(toDeadLetterGroup),
        next_cursor,
      };
    },
  );
}

/** Maximum concurrent exports per tenant and process: each holds pages of events in memory. */
const EXPORTS_MAX = 2;
const RETRY_AFTER_MS = 10_000;

/** The dead letters to export, and their tenant. */
export interface ExportRequest {
  readonly tenantId: string;
  readonly filter: DeliveryFilter;
  readonly isAdmitted: IsAdmitted;
}

/** Yields the lines of an export. On an error it ends without the last line, so that the reader notices. */
async function* exportLines(
  deliveries: DeliveryService,
  { tenantId, filter, isAdmitted }: ExportRequest,
  end: () => void,
): AsyncGenerator<string> {
  try {
    for await (const page of deliveries.exportDeadLetters(tenantId, filter)) {
      if (!(await isAdmitted())) {
        throw new SignetError("TOKEN_REVOKED", { detail: "The access token was revoked." });
      }
      yield page.map((deadLetter) => `${deadLetterJson(deadLetter)}\n`).join("");
    }
  } finally {
    end();
  }
}

/**
 * Sends all dead letters of the tenant that match the filter, one per line. Closes the connection once the caller is
 * no longer admitted. @throws SignetError RATE_LIMITED
 */
export type ExportDeadLetters = (reply: FastifyReply, request: ExportRequest) => Promise<FastifyReply>;

/** Creates the export function. All callers in this process share the limit of concurrent exports. */
export function createDeadLetterExport(deliveries: DeliveryService, timers: Timers): ExportDeadLetters {
  const running = new Shares(EXPORTS_MAX);
  return async (reply, request) => {
    if (reply.request.method === "HEAD") {
      return await reply.type("application/x-ndjson").send(Readable.from([]));
    }
    const { tenantId, isAdmitted } = request;
    if (!running.take(tenantId)) {
      throw tooManyRequests(RETRY_AFTER_MS, `${EXPORTS_MAX} exports of this tenant are already running.`);
    }
    breakOffUnlessAdmitted(reply, { isAdmitted, timers });
    let ended = false;
    const end = (): void => {
      if (!ended) {
        ended = true;
        running.release(tenantId);
      }
    };
    // Also runs if the client disconnects before the first line.
    reply.raw.once("close", end);
    // Reads at most one page ahead of the client.
    const lines = Readable.from(exportLines(deliveries, request, end), { highWaterMark: 1 });
    return await reply.type("application/x-ndjson").send(lines);
  };
}

function registerExport(server: SignetServer, { exportDeadLetters, isAdmitted }: DeadLetterExporting): void {
  server.get(
    "/v1/webhooks/dlq/export",
    operation({
      id: "exportDeadLetters",
      sdk: {
        name: "deadLetters.export",
        byHand: ["typescript", "go"],
        text: "Read all matching dead letters with their events from one streamed answer, newest first; two at once per tenant. An export that breaks off fails: it never ends early as if it were complete",
      },
      tag: "dead letters",
      scopes: ["webhooks:read"],
      summary: "Export dead letters as lines of JSON",
      description:
        "Returns all dead letters that match the filters, one per line, newest first. If the token is revoked, the response breaks off; a truncated response is incomplete.",
      documentedResponse: { type: "string", description: "NDJSON" },
      responseType: "application/x-ndjson",
      responseExample: '{"id":"dlv_01jd3c5xq8m2v7k9r4t6w0zy","state":"DEAD_LETTERED"}\\n',
      querystring: Closed({ ...DeliveryFilters, ...MetadataQuery }),
    }),
    async ({ identity, query }, reply) =>
      await exportDeadLetters(reply, {
        tenantId: identity.tenantId,
        filter: deliveryFilter(query),
        isAdmitted: async () => await isAdmitted(identity),
      }),
  );
}

function registerMembers(server: SignetServer, deliveries: DeliveryService): void {
  server.get(
    "/v1/webhooks/dlq/:id",
    operation({
      id: "getDeadLetter",
      sdk: "deadLetters.get",
      tag: "dead letters",
      scopes: ["webhooks:read"],
      summary: "Read a dead letter",
      description: "A dead letter has the id of its delivery.",
      errors: ["DLQ_ENTRY_EXPIRED"],
      params: IdParams("delivery"),
      response: { 200: DeadLetterSchema },
    }),
    async ({ identity, params }, reply) => {
      const deadLetter = await deliveries.deadLetter(identity.tenantId, params.id);
      return await sendRaw(reply, 200, deadLetterJson(deadLetter));
    },
  );

  server.post(
    "/v1/webhooks/dlq/:id/replay",
    operation({
      id: "replayDeadLetter",
      sdk: { name: "deadLetters.replay", repeat: "never" },
      tag: "dead letters",
      scopes: ["webhooks:replay"],
      summary: "Replay a dead letter",
      description: `Starts a new cycle of ${ATTEMPT_MAX} attempts, with the same event id.`,
      errors: ["INVALID_STATE", "DLQ_ENTRY_EXPIRED"],
      params: IdParams("delivery"),
      response: { 202: Delivery },
    }),
    async (request, reply) => {
      const { identity, params } = request;
      reply.code(202);
      return toDelivery(await deliveries.replay(identity.tenantId, params.id, callerOf(request)));
    },
  );
}
