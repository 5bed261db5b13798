/** Replays as durable jobs: of many deliveries or dead letters, or of the events that an endpoint missed. */
import { ATTEMPT_MAX } from "#domain/retry-schedule.ts";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Pool } from "#database/pool.ts";
import type { Counted, DeadLetterSelection } from "#database/repositories/webhooks/replay-items.ts";
import type { ReplayJob as ReplayJobRow } from "#database/repositories/webhooks/replay-jobs.ts";
import { tenantTransaction } from "#database/transaction.ts";
import { validationFailed } from "#domain/errors.ts";
import { REPLAY_RATE, type ReplayRequest, type ReplayService } from "#webhooks/replay/replay-service.ts";
import { callerOf } from "#http/caller.ts";
import { bodySpan } from "#http/instants.ts";
import { nextCursor, readPage, toPage } from "../pagination.ts";
import { answerOnce, repeatableRequest, type RepeatableServices } from "#http/repeatable.ts";
import { Closed, IdempotencyHeaders, IdParams, Page, PageQuery } from "#http/common.ts";
import {
  ItemQuery,
  NewMissingReplay,
  NewRecovery,
  NewReplay,
  toReplayCount,
  toReplayItem,
  toOutcomes,
  toReplay,
  RECOVERED_STATES,
  ReplayCount,
  ReplayItem,
  ReplayJob,
  ReplayOutcomes,
  outcomesOf,
} from "../schemas/replays.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import { deliveryFilter } from "./deliveries.ts";

const PATH = "/v1/webhooks/replays";
/** The position of an item in a cursor. */
const POSITION = /^[1-9]\d{0,8}$/;
/** Maximum body size, in bytes: 10,000 ids. */
const BODY_MAX = 524_288;

export interface ReplayRouteServices extends RepeatableServices {
  readonly service: ReplayService;
  /** Pool with the role signet_api. */
  readonly pool: Pool;
}

type Answer = Counted | { readonly job: ReturnType<typeof toReplay> };

/** Counts the items, or creates the job in one transaction with the stored response of its Idempotency-Key. */
async function carryOut(
  request: FastifyRequest,
  reply: FastifyReply,
  replay: ReplayRequest & { readonly dryRun: boolean },
  services: ReplayRouteServices,
): Promise<ReturnType<typeof toReplayCount | typeof toReplay>> {
  const { tenantId, principalId } = request.identity;
  const { service } = services;
  const repeatable = repeatableRequest(request, tenantId, principalId);
  let made: ReplayJobRow | undefined;
  const { answer, replayed } = await tenantTransaction(
    services.pool,
    tenantId,
    async (db) =>
      await answerOnce<Answer>(db, repeatable, services, async () => {
        if (replay.dryRun) {
          return await service.count(db, tenantId, replay);
        }
        made = await service.create(db, tenantId, replay, callerOf(request));
        return { job: toReplay(made) };
      }),
  );
  if (made !== undefined) {
    service.kick(made);
  }
  if (replayed) {
    reply.header("idempotent-replayed", "true");
  }
  reply.code("job" in answer ? 202 : 200);
  return "job" in answer ? answer.job : toReplayCount(answer);
}

function selectionOf({ ids, filter }: NewReplay): DeadLetterSelection {
  if ((ids === undefined) === (filter === undefined)) {
    throw validationFailed([{ pointer: "", code: "one_of", detail: "must have either ids or filter" }]);
  }
  if (ids !== undefined) {
    return { ids: [...new Set(ids)] };
  }
  const { from, to, ...rest } = filter ?? {};
  const span = bodySpan({ from, to }, FILTER_SPAN);
  return { filter: { ...deliveryFilter(rest), ...span } };
}

const FILTER_SPAN = { from: "/filter/from", to: "/filter/to" };

export function registerReplayRoutes(server: SignetServer, services: ReplayRouteServices): void {
  registerCreation(server, services);
  registerMissed(server, services);
  registerRecovery(server, services);
  registerReads(server, services.service);
  registerChanges(server, services.service);
}

/** Methods of the SDKs: one operation counts or creates. */
const COUNTS = { repeat: "read", body: "which", send: { dry_run: true }, returns: "ReplayCount" } as const;
const CREATES = { body: "which", returns: "ReplayJob" } as const;

function registerCreation(server: SignetServer, services: ReplayRouteServices): void {
  server.post(
    "/v1/webhooks/dlq/replay",
    operation({
      id: "replayDeadLetters",
      sdk: [
        {
          name: "deadLetters.countReplay",
          ...COUNTS,
          without: ["rate_per_second"],
          types: { typescript: "ReplaySelection", go: "DeadLetterSelection" },
          text: "Count the dead letters that a replay would select, and those of them that would fail now",
        },
        {
          name: "deadLetters.replayAll",
          ...CREATES,
          types: { typescript: "ReplaySelection & ReplayPace", go: "DeadLetterSelection" },
          text: "Replay many dead letters as a job: those now in the queue, at most 10,000 by id",
        },
      ],
      tag: "dead letters",
      scopes: ["webhooks:replay"],
      summary: "Replay many dead letters",
      description:
        "Selects dead letters either by ids or by the filters of the list. The job is durable and limited to `rate_per_second`. With `dry_run`, the response is 200 with the number of dead letters, and nothing is replayed.",
      errors: ["LIMIT_EXCEEDED", "INVALID_STATE"],
      requestExamples: {
        "by ids": { ids: ["dlv_01jd3c5xq8m2v7k9r4t6w0zy"] },
        "by a filter, to count": { filter: { last_error: "timeout" }, dry_run: true },
      },
      headers: IdempotencyHeaders,
      body: NewReplay,
      response: { 200: ReplayCount, 202: ReplayJob },
      bodyLimit: BODY_MAX,
    }),
    async (request, reply) => {
      const { dry_run: dryRun = false, rate_per_second: ratePerSecond = REPLAY_RATE.default } = request.body;
      const replay = { selection: selectionOf(request.body), ratePerSecond, dryRun };
      return await carryOut(request, reply, replay, services);
    },
  );
}

function registerMissed(server: SignetServer, services: ReplayRouteServices): void {
  server.post(
    "/v1/webhooks/endpoints/:id/replay-missing",
    operation({
      id: "replayMissing",
      sdk: [
        {
          name: "endpoints.countMissing",
          ...COUNTS,
          text: "Count the events that an endpoint missed, which a replay would deliver",
        },
        {
          name: "endpoints.replayMissing",
          ...CREATES,
          text: "Deliver the events that an endpoint missed, as a job: from before it was registered, or while it was not `ACTIVE`",
        },
      ],
      tag: "dead letters",
      scopes: ["webhooks:replay"],
      summary: "Send an endpoint the events that it missed",
      description:
        "For an endpoint that was registered, or subscribed to a type, too late. Sends the events of the time span that match it now and have no delivery to it.",
      errors: ["LIMIT_EXCEEDED", "INVALID_STATE"],
      requestExamples: { "since a day": { since: "2025-11-19T00:00:00.000Z" } },
      params: IdParams("endpoint"),
      headers: IdempotencyHeaders,
      body: NewMissingReplay,
      response: { 200: ReplayCount, 202: ReplayJob },
    }),
    async (request, reply) => {
      const { since, until, dry_run: dryRun = false } = request.body;
      const { rate_per_second: ratePerSecond = REPLAY_RATE.default } = request.body;
      const span = bodySpan({ from: since, to: until }, { from: "/since", to: "/until" });
      const selection = { endpointId: request.params.id, since: span.from, until: span.to };
      return await carryOut(request, reply, { selection, ratePerSecond, dryRun }, services);
    },
  );
}

function registerRecovery(server: SignetServer, services: ReplayRouteServices): void {
  server.post(
    PATH,
    operation({
      id: "replayDeliveries",
      sdk: [
        {
          name: "replays.count",
          ...COUNTS,
          without: ["rate_per_second"],
          text: "Count the deliveries that a replay would select, and those of them that would fail now",
        },
        {
          name: "replays.create",
          ...CREATES,
          text: "Replay many deliveries as a job: retries are attempted now, others get a new cycle. By default, it selects dead letters and retries. A job that includes `CANCELLED` has at most 100,000",
        },
      ],
      tag: "deliveries",
      scopes: ["webhooks:replay"],
      summary: "Replay many deliveries",
      description: `Selects deliveries by state and by the filters of the list. \`RETRYING\` ones are attempted now; the others get a new cycle of ${ATTEMPT_MAX} attempts. The job is durable and limited to \`rate_per_second\`. With \`dry_run\`, the response is 200 with the number of deliveries, and nothing is sent.`,
      errors: ["LIMIT_EXCEEDED", "INVALID_STATE"],
      requestExamples: {
        "the receiver is fixed": { filter: { endpoint_id: "ep_01jd3c5xq8m2v7k9r4t6w0zy" }, dry_run: true },
        "also what was delivered": {
          states: ["DEAD_LETTERED", "RETRYING", "DELIVERED"],
          filter: { from: "2025-11-20T02:00:00.000Z" },
        },
      },
      headers: IdempotencyHeaders,
      body: NewRecovery,
      response: { 200: ReplayCount, 202: ReplayJob },
    }),
    async (request, reply) => {
      const { states, dry_run: dryRun = false } = request.body;
      const { rate_per_second: ratePerSecond = REPLAY_RATE.default } = request.body;
      const { from, to, ...rest } = request.body.filter;
      const filter = { ...deliveryFilter(rest), ...bodySpan({ from, to }, FILTER_SPAN) };
      const selection = { states: [...new Set(states ?? RECOVERED_STATES)], filter };
      return await carryOut(request, reply, { selection, ratePerSecond, dryRun }, services);
    },
  );
}

function registerReads(server: SignetServer, replays: ReplayService): void {
  server.get(
    PATH,
    operation({
      id: "listReplays",
      sdk: "replays.list",
      tag: "dead letters",
      scopes: ["webhooks:read"],
      summary: "List replay jobs",
      description: "Newest first.",
      querystring: Closed(PageQuery),
      response: { 200: Page(ReplayJob) },
    }),
    async (request) => {
      const page = readPage(request);
      const rows = await replays.list(request.identity.tenantId, { ...page, limit: page.limit + 1 });
      return toPage(rows.map(toReplay), page);
    },
  );

  server.get(
    `${PATH}/:id`,
    operation({
      id: "getReplay",
      sdk: "replays.get",
      tag: "dead letters",
      scopes: ["webhooks:read"],
      summary: "Read a replay job",
      description: "`done`, `failed` and `skipped` show its progress towards `total`.",
      params: IdParams("replay"),
      response: { 200: ReplayJob },
    }),
    async ({ identity, params }) => toReplay(await replays.find(identity.tenantId, params.id)),
  );

  server.get(
    `${PATH}/:id/outcomes`,
    operation({
      id: "getReplayOutcomes",
      sdk: "replays.outcomes",
      tag: "dead letters",
      scopes: ["webhooks:read"],
      summary: "Count what a replay job has come to",
      description: "Of its replayed deliveries, how many were delivered, failed again or still wait.",
      params: IdParams("replay"),
      response: { 200: ReplayOutcomes },
    }),
    async ({ identity, params }) => toOutcomes(await replays.outcomes(identity.tenantId, params.id)),
  );
  registerItems(server, replays);
}

function registerItems(server: SignetServer, replays: ReplayService): void {
  server.get(
    `${PATH}/:id/items`,
    operation({
      id: "listReplayItems",
      sdk: "replays.items",
      tag: "dead letters",
      scopes: ["webhooks:read"],
      summary: "List the items of a replay job with their results",
      description:
        "In the order of replay. `outcome` says what a replay has come to: `RETRYING` after a failed attempt, `FAILED` if it is a dead letter again, `WAITING` before the first outcome.",
      params: IdParams("replay"),
      querystring: Closed({ ...ItemQuery, ...PageQuery }),
      response: { 200: Page(ReplayItem) },
    }),
    async (request) => {
      const page = readPage(request, (key) => POSITION.test(key));
      const { rows, next } = await replays.items(request.identity.tenantId, request.params.id, {
        after: Number(page.before ?? 0),
        limit: page.limit,
        outcomes: outcomesOf(request.query.state),
        outcome: request.query.outcome,
      });
      return {
        data: rows.map(toReplayItem),
        next_cursor: nextCursor({ next: next?.toString() ?? null }, page),
      };
    },
  );
}

const CHANGES = [
  {
    name: "pause",
    to: "PAUSED",
    summary: "Pause a replay job",
    description: "Items already replayed stay replayed.",
  },
  {
    name: "resume",
    to: "RUNNING",
    summary: "Resume a paused replay job",
    description: "The job continues where it stopped.",
  },
  {
    name: "cancel",
    to: "CANCELLED",
    summary: "Cancel a replay job",
    description: "Items already replayed stay replayed; the others stay as they are.",
  },
] as const;

function registerChanges(server: SignetServer, replays: ReplayService): void {
  for (const { name, to, ...texts } of CHANGES) {
    server.post(
      `${PATH}/:id/${name}`,
      operation({
        ...texts,
        id: `${name}Replay`,
        sdk: { name: `replays.${name}`, repeat: "safe" },
        tag: "dead letters",
        scopes: ["webhooks:replay"],
        errors: ["INVALID_STATE"],
        params: IdParams("replay"),
        response: { 200: ReplayJob },
      }),
      async (request) => {
        const { identity, params } = request;
        return toReplay(await replays.change(identity.tenantId, params.id, to, callerOf(request)));
      },
    );
  }
}
