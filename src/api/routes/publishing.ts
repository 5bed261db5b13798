/** POST /v1/events: one event, or a batch whose items succeed or fail independently (contract 6.1). */
import { createHash } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import type { Pool } from "#database/pool.ts";
import { type EventKey, EVENTS_ROUTE, findTenantState } from "#database/repositories/webhooks/events.ts";
import { principalKey, signedKey, sourceKey } from "#database/repositories/idempotency.ts";
import {
  type AcceptedEvent as Accepted,
  type IncomingEvent,
  type Ingest,
  isIdReused,
} from "#webhooks/ingest/ingest.ts";
import type { NotePlatformPublishing } from "#webhooks/ingest/platform-publishing.ts";
import { scopeViolation } from "#http/bearer-errors.ts";
import { isReservedType, RESERVED_TYPE_PROBLEM } from "#domain/own-event-types.ts";
import { noteRefusedRequest, publishRefusals } from "#http/rate-limits/publish-refusals.ts";
import type { TenantLimits } from "#http/rate-limits/tenant-limits.ts";
import { type FieldProblem, SignetError, validationFailed } from "#domain/errors.ts";
import { type Cells, EVERY_REGION, requireOwnCell } from "#domain/regions.ts";
import { bodyInstant } from "#http/instants.ts";
import { sendRaw } from "#http/raw-json.ts";
import { IdempotencyHeaders, Named, Resource } from "#http/common.ts";
import {
  AcceptedEvent,
  BATCH_MAX,
  EVENT_DATA_DEPTH,
  EVENT_MAX,
  EventBatch,
  NewEvent,
  PUBLISHING_METHODS,
} from "../schemas/events.ts";
import { nextTurn } from "#runtime/slices.ts";
import { decorateSignedRequests } from "#tokens/guards/ingress-validator.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import { compileValidator, createValueCheck } from "#http/validation.ts";

/** Events of a batch that are handled in a turn of the event loop: a thousand would delay other requests by 20 ms. */
const EVENTS_PER_TURN = 64;
const PUBLISH_ANY = "events:publish_any";
/** Separates a batch's key from an item's number. Keys are printable, so no key contains it. */
const ITEM_SEPARATOR = "\u001f";

export interface PublishingServices {
  /** Pool with the role signet_ingest. */
  readonly ingestPool: Pool;
  readonly ingest: Ingest;
  readonly notePlatformPublishing: NotePlatformPublishing;
  readonly tenantLimits: Pick<TenantLimits, "chargeEvents" | "policyOf">;
  /** Set if regions have cells of their own. */
  readonly cells?: Cells | undefined;
}

type NewEvent = Static<typeof NewEvent>;
type WireEvent = Static<typeof AcceptedEvent>;

const BatchItem = Named(
  "BatchItem",
  Type.Union([
    Resource("AcceptedBatchItem", {
      index: Type.Integer(),
      ...AcceptedEvent.properties,
      replayed: Type.Optional(
        Type.Boolean({
          description:
            "True, and present, if the result is that of an earlier event with the same `id`. A repeated batch has the header `Idempotent-Replayed` instead",
        }),
      ),
    }),
    Resource("RefusedBatchItem", {
      index: Type.Integer(),
      error: Type.Unsafe<unknown>({ type: "object", additionalProperties: true }),
    }),
  ]),
);

/** The response to a repeated signed request. */
const Duplicate = Resource("DuplicateEvent", {
  duplicate: Type.Boolean({ description: "True: an earlier request has published the event" }),
});

type RoutePart = Parameters<typeof compileValidator>[0];
const checkEvent = createValueCheck(NewEvent);
const checkBatch = createValueCheck(EventBatch);

function isBatch(body: unknown): body is Static<typeof EventBatch> {
  return typeof body === "object" && body !== null && Object.hasOwn(body, "events");
}

/** An event whose members have been validated. */
interface ReadEvent {
  readonly event: NewEvent;
  readonly occurredAt: Date | null;
}

/** An event that may be published, still without its keys. */
type Prepared = Omit<IncomingEvent, "keys"> & {
  /** The publisher's own id with the hash of its event. */
  readonly sourceKey: EventKey | undefined;
};

/** Returns the parts that make two requests equal, regardless of whitespace. */
function canonical({ type, data, id, occurred_at: occurredAt, tenant_id: tenantId }: NewEvent): unknown {
  return [type, data.text, id ?? null, occurredAt ?? null, tenantId ?? null];
}

function hash(value: unknown): Buffer {
  return createHash("sha256").update(JSON.stringify(value)).digest();
}

/**
 * Reports `sent_at` and a batch's `id` in an unsigned body. They are only meaningful in a signed body, where they are
 * compared with the signature's time and id.
 */
function unsignedMembers(
  body: { readonly sent_at?: unknown; readonly id?: unknown },
  { signed }: Pick<Caller, "signed">,
): readonly FieldProblem[] {
  const names = signed === undefined ? (["sent_at", "id"] as const) : [];
  return names
    .filter((name) => body[name] !== undefined)
    .map((name) => ({
      pointer: `/${name}`,
      code: "not_applicable",
      detail: "is only allowed in a signed body",
    }));
}

/** @throws SignetError VALIDATION_FAILED, PAYLOAD_TOO_LARGE */
function readEvent(value: unknown, signed?: "signed"): ReadEvent {
  const problems = checkEvent(value);
  if (problems.length > 0) {
    throw validationFailed(problems);
  }
  const event = value as NewEvent;
  if (event.sent_at !== undefined && signed === undefined) {
    const detail = "is only allowed in a signed body";
    throw validationFailed([{ pointer: "/sent_at", code: "not_applicable", detail }]);
  }
  if (isReservedType(event.type)) {
    throw validationFailed([{ pointer: "/type", ...RESERVED_TYPE_PROBLEM }]);
  }
  if (Buffer.byteLength(event.data.text) > EVENT_MAX) {
    throw new SignetError("PAYLOAD_TOO_LARGE", {
      detail: `The data of an event may have at most ${EVENT_MAX} bytes.`,
    });
  }
  const { occurred_at: occurredAt } = event;
  return { event, occurredAt: occurredAt === undefined ? null : bodyInstant(occurredAt, "/occurred_at") };
}

/** Checks that the caller may publish for another tenant, which must belong to this cell, and records it. */
async function permitPublishAny(
  { ingestPool, notePlatformPublishing, tenantLimits, cells }: PublishingServices,
  { identity, id: requestId }: Caller,
  tenantId: string,
): Promise<void> {
  const violation = scopeViolation({
    operation: "Publishing for another tenant",
    required: [PUBLISH_ANY],
    granted: identity.scopes,
  });
  if (violation !== undefined) {
    throw violation;
  }
  if (cells !== undefined) {
    requireOwnCell(cells, EVERY_REGION, (await tenantLimits.policyOf(tenantId)).region);
  }
  const state = await findTenantState(ingestPool, tenantId);
  if (state === "SUSPENDED") {
    throw new SignetError("TENANT_SUSPENDED", {
      detail: "The tenant is suspended and accepts no events until it is resumed.",
    });
  }
  if (state !== "ACTIVE") {
    throw validationFailed([{ pointer: "/tenant_id", code: "unknown", detail: "is not a tenant" }]);
  }
  const { principalId, credentialId } = identity;
  await notePlatformPublishing({ principalId, credentialId, tenantId, requestId });
}

function toAcceptedEvent({ id, type, createdAt, deliveries }: Accepted): WireEvent {
  return { id, type, created_at: createdAt.toISOString(), deliveries };
}

/** Returns an item's error: the problem document without the members of the whole request. */
function itemError(error: SignetError): Record<string, unknown> {
  return { code: error.code, status: error.status, detail: error.message, ...error.extensions };
}

/** The parts of a request that publishing uses. */
type Caller = Pick<FastifyRequest, "id" | "identity" | "signed" | "span">;

/** The earliest deprecation date of the published types (RFC 9745). */
class Deprecation {
  #since: Date | null = null;

  note({ deprecatedAt }: Accepted): void {
    if (deprecatedAt !== null && (this.#since === null || deprecatedAt < this.#since)) {
      this.#since = deprecatedAt;
    }
  }

  get header(): string | undefined {
    return this.#since === null ? undefined : `@${Math.floor(this.#since.getTime() / 1_000)}`;
  }
}

class Publisher {
  readonly deprecation = new Deprecation();
  readonly #services: PublishingServices;
  readonly #caller: Caller;
  /** Permissions for other tenants, checked once per tenant. */
  readonly #permissions = new Map<string, Promise<void>>();

  constructor(services: PublishingServices, caller: Caller) {
    this.#services = services;
    this.#caller = caller;
  }

  /** Publishes an event or a batch and returns the response body. */
  async answer(
    body: unknown,
    key: string | undefined,
  ): Promise<{ readonly answer: unknown; readonly knownBy: EventKey["kind"] | undefined }> {
    if (isBatch(body)) {
      const problems = [...checkBatch(body), ...unsignedMembers(body, this.#caller)];
      if (problems.length > 0) {
        throw validationFailed(problems);
      }
      this.#services.tenantLimits.chargeEvents(this.#caller.identity.tenantId, body.events.length - 1);
      const { items, knownBy } = await this.#publishBatch(body.events, key);
      publishRefusals.note(this.#caller.identity.tenantId, items);
      return { answer: { data: items }, knownBy };
    }
    const read = readEvent(body, this.#caller.signed === undefined ? undefined : "signed");
    const prepared = await this.#prepare(read);
    const bodyHash = key === undefined ? undefined : hash(canonical(read.event));
    const accepted = await this.#accept(prepared, key, bodyHash);
    publishRefusals.note(this.#caller.identity.tenantId, [accepted]);
    return { answer: toAcceptedEvent(accepted), knownBy: accepted.knownBy };
  }

  /** @throws SignetError if the caller may not publish for the named tenant */
  async #prepare({ event, occurredAt }: ReadEvent): Promise<Prepared> {
    const { tenantId: own } = this.#caller.identity;
    const tenantId = event.tenant_id ?? own;
    if (tenantId !== own) {
      const permission =
        this.#permissions.get(tenantId) ?? permitPublishAny(this.#services, this.#caller, tenantId);
      this.#permissions.set(tenantId, permission);
      await permission;
    }
    const { id } = event;
    const place = id === undefined ? undefined : sourceKey(own, EVENTS_ROUTE, { tenantId, id });
    return {
      tenantId,
      type: event.type,
      data: event.data.text,
      sourceId: id ?? null,
      sourceKey: place === undefined ? undefined : { ...place, kind: "id", bodyHash: hash(canonical(event)) },
      occurredAt,
      traceparent: this.#caller.span?.traceparent,
    };
  }

  async #accept(
    { sourceKey: source, ...event }: Prepared,
    key: string | undefined,
    bodyHash: Buffer | undefined,
  ): Promise<Accepted> {
    const request = key === undefined || bodyHash === undefined ? [] : [this.#requestKey(key, bodyHash)];
    const keys = source === undefined ? request : [...request, source];
    const accepted = await this.#services.ingest.accept({ ...event, keys });
    this.deprecation.note(accepted);
    return accepted;
  }

  #requestKey(key: string, bodyHash: Buffer): EventKey {
    const { identity, signed } = this.#caller;
    return signed === undefined
      ? { ...principalKey(identity, EVENTS_ROUTE, key), kind: "request", bodyHash }
      : { ...signedKey({ ...identity, ...signed }, EVENTS_ROUTE, key), kind: "signed", bodyHash };
  }

  /** Accepts items concurrently, so that they share commits, after the items that claim the batch's key. */
  async #publishBatch(
    values: readonly unknown[],
    key: string | undefined,
  ): Promise<{
    readonly items: Static<typeof BatchItem>[];
    readonly knownBy: EventKey["kind"] | undefined;
  }> {
    const read = await inTurns(values, async (value) => await attempt(async () => readEvent(value)));
    const prepared = await inTurns(read, async (item) =>
      item instanceof SignetError ? item : await attempt(async () => await this.#prepare(item)),
    );
    const bodyHash =
      key === undefined
        ? undefined
        : hash(
            read.map((item, index) => (item instanceof SignetError ? values[index] : canonical(item.event))),
          );
    const led = key === undefined || bodyHash === undefined ? [] : await this.#lead(prepared, key, bodyHash);
    const rest = await Promise.all(
      prepared.slice(led.length).map(async (item, index) => {
        const itemKey = key === undefined ? key : `${key}${ITEM_SEPARATOR}${led.length + index}`;
        return item instanceof SignetError
          ? item
          : await attempt(async () => await this.#accept(item, itemKey, bodyHash));
      }),
    );
    const leader = led.at(-1);
    return {
      items: [...led, ...rest].map((outcome, index) =>
        outcome instanceof SignetError
          ? { index, error: itemError(outcome) }
          : { index, ...toAcceptedEvent(outcome), ...(outcome.knownBy === "id" ? { replayed: true } : {}) },
      ),
      knownBy: leader instanceof SignetError || leader?.knownBy === "id" ? undefined : leader?.knownBy,
    };
  }

  /**
   * Accepts a batch's items one by one, up to the first that claims the batch's key. The items before it violate the
   * schema of their type, or are known by their own ids. If the claiming item is not the first candidate, the key's
   * hash includes its index: after a schema change, one item must not get the result of another.
   *
   * @throws SignetError if the key belongs to another body, or to deleted events
   */
  async #lead(
    prepared: readonly (Prepared | SignetError)[],
    key: string,
    bodyHash: Buffer,
  ): Promise<(Accepted | SignetError)[]> {
    const first = prepared.findIndex((item) => !(item instanceof SignetError));
    const outcomes: (Accepted | SignetError)[] = [];
    for (const [index, item] of prepared.entries()) {
      if (item instanceof SignetError) {
        outcomes.push(item);
        continue;
      }
      const placedHash = index === first ? bodyHash : hash([index, bodyHash.toString("base64")]);
      const outcome = await attempt(async () => await this.#accept(item, key, placedHash));
      outcomes.push(outcome);
      if (outcome instanceof SignetError) {
        if (outcome.code !== "VALIDATION_FAILED" && !isIdReused(outcome)) {
          throw outcome;
        }
      } else if (outcome.knownBy !== "id") {
        break;
      }
    }
    return outcomes;
  }
}

/** Begins work on each item, some in each turn of the event loop, and returns the results. */
async function inTurns<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Promise<Result>[] = [];
  for (const [index, item] of items.entries()) {
    if (index > 0 && index % EVENTS_PER_TURN === 0) {
      await nextTurn();
    }
    const result = work(item);
    // It may fail before the last one has begun, and is awaited then.
    result.catch(() => undefined);
    results.push(result);
  }
  return await Promise.all(results);
}

async function attempt<T>(work: () => Promise<T>): Promise<T | SignetError> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof SignetError) {
      return error;
    }
    throw error;
  }
}

/** Returns the key that identifies repetitions of a request: the signed id, which nobody can change, or the header. */
function onceBy(
  { "idempotency-key": key }: { readonly "idempotency-key"?: string | undefined },
  signed: FastifyRequest["signed"],
): string | undefined {
  if (signed !== undefined && key !== undefined) {
    throw new SignetError("INVALID_REQUEST", {
      detail: "A signed request must not have an Idempotency-Key: its signed id replaces the header.",
    });
  }
  return signed?.eventId ?? key;
}

const EXAMPLE_EVENT = { type: "inference.completed", data: { run: 7, result: "ok" } };

export function registerPublishing(server: SignetServer, services: PublishingServices): void {
  decorateSignedRequests(server);
  server.post(
    "/v1/events",
    {
      ...operation({
        id: "publishEvents",
        sdk: PUBLISHING_METHODS,
        tag: "events",
        scopes: ["events:publish"],
        tenantRate: "publish",
        signatures: true,
        opaque: { "/data": EVENT_DATA_DEPTH, "/events/*/data": EVENT_DATA_DEPTH },
        summary: "Publish an event, or up to 1,000",
        description:
          "202 means that the event and its deliveries are stored durably. The `data` of an event may have at most 256 KiB, a batch 4 MiB. The items of a batch succeed or fail independently. A request may be signed with a credential's signing secret instead of carrying a token; if it is repeated, the response is 200 with `duplicate`.",
        errors: ["SIGNATURE_INVALID", "PAYLOAD_EXPIRED", "TIMESTAMP_MISMATCH", "REPLAY_CONFLICT"],
        requestExamples: {
          "one event": EXAMPLE_EVENT,
          "with the producer's id": {
            ...EXAMPLE_EVENT,
            id: "run-7",
            occurred_at: "2025-11-20T14:46:40.000Z",
          },
          "a batch": { events: [EXAMPLE_EVENT, { type: "pipeline.failed", data: { run: 8 } }] },
        },
        headers: IdempotencyHeaders,
        body: Named("EventOrBatchInput", Type.Union([NewEvent, EventBatch])),
        response: {
          200: Duplicate,
          202: Named(
            "AcceptedEventOrBatch",
            Type.Union([AcceptedEvent, Resource("AcceptedBatch", { data: Type.Array(BatchItem) })]),
          ),
        },
        bodyLimit: BATCH_MAX,
      }),
      onResponse: noteRefusedRequest,
      // Validated in the handler, which gives better errors than a union in the schema.
      validatorCompiler: (part) =>
        part.httpPart === "body" ? () => true : compileValidator(part as RoutePart),
    },
    async (request, reply) => {
      const { body, headers, signed } = request;
      const publisher = new Publisher(services, request);
      const { answer, knownBy } = await publisher.answer(body, onceBy(headers, signed));
      if (knownBy === "signed") {
        return await reply.code(200).send({ duplicate: true });
      }
      if (knownBy !== undefined) {
        reply.header("idempotent-replayed", "true");
      }
      const { header: deprecation } = publisher.deprecation;
      if (deprecation !== undefined) {
        reply.header("deprecation", deprecation);
      }
      // Serialized here: a union in the schema would be evaluated again for every item.
      return await sendRaw(reply, 202, JSON.stringify(answer));
    },
  );
}
