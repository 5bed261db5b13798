/** Publishes security events to the streams of a tenant, after the change that they report. */
import type { Queryable } from "#database/pool.ts";
import { findDataKeys } from "#database/repositories/data-keys.ts";
import { insertEvents, type NewEvent } from "#database/repositories/webhooks/events.ts";
import {
  disableStreams,
  findHolder,
  fullStreams,
  insertPolledSets,
  lockTakingStreams,
  type StreamRow,
  streamsWithout,
} from "#database/repositories/webhooks/ssf-streams.ts";
import { actAs } from "#database/transaction.ts";
import { newId } from "#domain/ids.ts";
import {
  CAEP_EVENTS,
  eventsDelivered,
  INTERNAL_TYPES,
  STREAM_EVENTS,
  type StreamStatus,
  type SubjectId,
  subjectText,
} from "#domain/security-events.ts";
import { sealNewContents } from "../ingest/event-content.ts";
import type { OwnEventServices } from "../ingest/own-event.ts";

/** Maximum number of tokens that a receiver may leave unacknowledged. The stream is disabled at the next one. */
export const POLLED_SETS_MAX = 10_000;
const FULL = `${POLLED_SETS_MAX} tokens were not acknowledged`;

/** What an event is about: a credential or a principal by its id, a tenant, or a token by its `jti`. */
export interface SecuritySubject {
  readonly noun: "credential" | "principal" | "tenant" | "jti";
  readonly id: string;
}

/** An event with the members of its type. */
export interface SecurityEvent {
  readonly name: keyof typeof CAEP_EVENTS;
  readonly members?: Readonly<Record<string, unknown>>;
}

/** Type of a credential of this service, with its secret or keys. CAEP has no word for it. */
const CLIENT_CREDENTIAL = "client-credential";

/** Returns `credential-change` for a credential. A client certificate that it names is a credential of its own. */
export function credentialChanges(
  change: "create" | "update" | "revoke" | "delete",
  { certificate = false }: { readonly certificate?: boolean | undefined } = {},
): readonly SecurityEvent[] {
  const types = certificate ? [CLIENT_CREDENTIAL, "x509"] : [CLIENT_CREDENTIAL];
  return types.map((type) => ({
    name: "credential-change",
    members: { credential_type: type, change_type: change },
  }));
}

/** Author and reason of the change. */
export interface ChangedBy {
  readonly actor: string;
  readonly reason?: string | undefined;
}

/** Events with one cause and one subject. */
export interface SecurityEvents extends ChangedBy {
  readonly tenantId: string;
  readonly subject: SecuritySubject;
  readonly events: readonly SecurityEvent[];
  /** Time of the change, in Unix milliseconds. */
  readonly atMs: number;
}

/** Returns the members that CAEP events have in common (CAEP 1.0 section 2). */
export function caepMembers({ actor, reason }: ChangedBy, nowMs: number): Readonly<Record<string, unknown>> {
  return {
    event_timestamp: Math.floor(nowMs / 1_000),
    initiating_entity: actor.startsWith("operator:") ? "admin" : "system",
    ...(reason === undefined ? {} : { reason_admin: { en: reason } }),
  };
}

/** A subject as receivers know it, and the texts under which a stream may have removed it. */
interface KnownSubject {
  readonly subId: SubjectId;
  readonly texts: readonly string[];
}

/**
 * Returns the subject identifier: a credential and a principal by the issuer and the claims `sub` and `prn` of their
 * tokens, a tenant by the claim `tenant`, and a token by its issuer and `jti`.
 */
async function subjectOf(
  db: Queryable,
  { tenantId, subject: { noun, id } }: Pick<SecurityEvents, "tenantId" | "subject">,
  iss: string,
): Promise<KnownSubject | undefined> {
  const named = (sub: string): SubjectId => ({ format: "iss_sub", iss, sub });
  if (noun === "credential") {
    const holder = await findHolder(db, tenantId, id);
    const subId = named(holder?.client_id ?? "");
    return holder && { subId, texts: [subId, named(holder.principal_id)].map(subjectText) };
  }
  const subId: SubjectId =
    noun === "principal"
      ? named(id)
      : noun === "tenant"
        ? { format: "opaque", id }
        : { format: "jwt_id", iss, jti: id };
  return { subId, texts: [subjectText(subId)] };
}

/** An event to store, with the streams that get it. */
interface Taken {
  readonly type: string;
  readonly claims: Readonly<Record<string, unknown>>;
  readonly streams: readonly StreamRow[];
}

/** Stores events with their deliveries and queued tokens. Acts as signet_ingest. */
async function store(
  db: Queryable,
  tenantId: string,
  taken: readonly Taken[],
  { keyring, clock, randomBytes, deadLetterMs }: OwnEventServices,
): Promise<void> {
  const wrapped = (await findDataKeys(db, [tenantId])).get(tenantId);
  if (wrapped === undefined || taken.length === 0) {
    return;
  }
  const root = await keyring.contentRoot(wrapped, tenantId);
  const nowMs = clock.now();
  const now = new Date(nowMs);
  const ids = taken.map(() => newId("event", nowMs, randomBytes));
  const contents = sealNewContents(
    taken.map(({ claims }, index) => ({
      id: ids[index] as string,
      tenantId,
      // One cause has one transaction id (SSF 1.0 section 4.1.9).
      data: JSON.stringify({ txn: ids[0], ...claims }),
    })),
    () => root,
    randomBytes,
  );
  const events = taken.map(({ type, streams }, index): NewEvent => ({
    id: ids[index] as string,
    tenantId,
    type,
    content: contents[index] as Buffer,
    sourceId: null,
    own: true,
    occurredAt: now,
    keys: [],
    deliveries: streams.flatMap(({ endpoint_id: endpointId, status }) =>
      endpointId === null
        ? []
        : [
            {
              id: newId("delivery", nowMs, randomBytes),
              endpointId,
              // A paused stream's tokens wait as dead letters until its receiver resumes it.
              state: status === "paused" ? ("DEAD_LETTERED" as const) : ("QUEUED" as const),
            },
          ],
    ),
  }));
  await insertEvents(db, events, {
    now,
    keysAfter: now,
    signedKeysAfter: now,
    expiresAt: new Date(nowMs + deadLetterMs),
  });
  const queued = taken.flatMap(({ streams }, index) =>
    streams
      .filter(({ endpoint_id: endpointId }) => endpointId === null)
      .map(({ id: streamId }) => ({
        id: newId("securityEventToken", nowMs, randomBytes),
        streamId,
        tenantId,
        eventId: ids[index] as string,
      })),
  );
  if (queued.length > 0) {
    await insertPolledSets(db, queued, now);
  }
}

/** Returns an event about a stream itself. */
function streamEvent(
  stream: StreamRow,
  name: keyof typeof STREAM_EVENTS,
  members: Readonly<Record<string, unknown>>,
): Taken {
  return {
    type: INTERNAL_TYPES[name],
    claims: {
      iss: stream.issuer,
      sub_id: { format: "opaque", id: stream.id },
      events: { [STREAM_EVENTS[name]]: members },
    },
    streams: [stream],
  };
}

/** Disables the streams whose queues are full, with a last event that says so. Returns the others. */
async function withRoom(
  db: Queryable,
  tenantId: string,
  streams: readonly StreamRow[],
  sources: OwnEventServices,
): Promise<readonly StreamRow[]> {
  const polled = streams.filter(({ endpoint_id: endpointId }) => endpointId === null);
  const full =
    polled.length === 0
      ? new Set<string>()
      : await fullStreams(
          db,
          polled.map(({ id }) => id),
          POLLED_SETS_MAX,
        );
  if (full.size === 0) {
    return streams;
  }
  await disableStreams(db, [...full], FULL);
  const updated = streams
    .filter(({ id }) => full.has(id))
    .map((stream) => streamEvent(stream, "stream-updated", { status: "disabled", reason: FULL }));
  await store(db, tenantId, updated, sources);
  return streams.filter(({ id }) => !full.has(id));
}

/**
 * Publishes security events to the tenant's streams that deliver their types and have not removed their subject. They
 * are delivered exactly if the caller's transaction commits.
 *
 * @param db a transaction, for a credential of a role that reads credentials
 */
export async function publishSecurityEvents(
  db: Queryable,
  { tenantId, subject, events, atMs, ...by }: SecurityEvents,
  sources: OwnEventServices,
): Promise<void> {
  const streams = await actAs(
    db,
    "signet_ingest",
    async () => await withRoom(db, tenantId, await lockTakingStreams(db, tenantId), sources),
  );
  const newest = streams.at(-1);
  const known = newest && (await subjectOf(db, { tenantId, subject }, newest.issuer));
  if (newest === undefined || known === undefined) {
    return;
  }
  const common = caepMembers(by, atMs);
  await actAs(db, "signet_ingest", async () => {
    const without = await streamsWithout(
      db,
      streams.map(({ id }) => id),
      known.texts,
    );
    const taken = events.map(({ name, members }) => ({
      type: INTERNAL_TYPES[name],
      claims: {
        iss: newest.issuer,
        sub_id: known.subId,
        events: { [CAEP_EVENTS[name]]: { ...members, ...common } },
      },
      streams: streams.filter(
        ({ id, events_requested: eventsRequested }) =>
          !without.has(id) && eventsDelivered(eventsRequested).includes(CAEP_EVENTS[name]),
      ),
    }));
    await store(
      db,
      tenantId,
      taken.filter(({ streams: takers }) => takers.length > 0),
      sources,
    );
  });
}

/** Publishes the verification event that a receiver has requested (SSF 1.0 section 8.1.4). */
export async function publishVerification(
  db: Queryable,
  stream: StreamRow,
  state: string | undefined,
  sources: OwnEventServices,
): Promise<void> {
  const event = streamEvent(stream, "verification", state === undefined ? {} : { state });
  await actAs(db, "signet_ingest", async () => await store(db, stream.tenant_id, [event], sources));
}

/** Tells a stream that the service has changed its status (SSF 1.0 section 8.1.5). */
export async function publishStreamUpdated(
  db: Queryable,
  stream: StreamRow,
  { status, reason }: { readonly status: StreamStatus; readonly reason: string },
  sources: OwnEventServices,
): Promise<void> {
  const event = streamEvent(stream, "stream-updated", { status, reason });
  await actAs(db, "signet_ingest", async () => await store(db, stream.tenant_id, [event], sources));
}
