/** Management of streams of security events by their receivers (Shared Signals Framework 1.0 section 8). */
import { appendEntry, type By } from "#compliance/append-entry.ts";
import type { ComplianceEntry } from "#compliance/entry.ts";
import type { Keyring } from "#crypto/keyring.ts";
import type { Pool, Queryable } from "#database/pool.ts";
import { eraseAuthentication } from "#database/repositories/endpoints/endpoint-authentications.ts";
import {
  type Endpoint,
  eraseSecrets,
  lockEndpoint,
  moveEndpoint,
  saveSettings,
} from "#database/repositories/endpoints/endpoints.ts";
import type { ReplayJob } from "#database/repositories/webhooks/replay-jobs.ts";
import {
  addSubject,
  countRemovedSubjects,
  countStreams,
  deleteStream,
  findStream,
  insertStream,
  listStreams,
  lockStream,
  removeSubject,
  saveStream,
  type Stream,
  takeVerification,
} from "#database/repositories/webhooks/ssf-streams.ts";
import { tenantRead, tenantTransaction } from "#database/transaction.ts";
import { mayMove } from "#domain/endpoint-state.ts";
import { ENDPOINT_SETTINGS, defaultOf, type EndpointSettings } from "#domain/endpoint-settings.ts";
import { found, SignetError, tooManyRequests } from "#domain/errors.ts";
import { newId } from "#domain/ids.ts";
import { type StreamStatus, type SubjectId, subjectText } from "#domain/security-events.ts";
import type { EndpointService } from "../endpoints/endpoint-service.ts";
import { registerEndpoint } from "../endpoints/registration.ts";
import {
  checkSettings,
  requireSecretAgain,
  sealAuthentication,
  type SettingsInput,
} from "../endpoints/settings.ts";
import type { OwnEventServices } from "../ingest/own-event.ts";
import { REPLAY_RATE, type ReplayService } from "../replay/replay-service.ts";
import { publishVerification } from "./publish.ts";

export const STREAMS_MAX = 10;
export const REMOVED_SUBJECTS_MAX = 1_000;
/** Minimum time between verification requests (`min_verification_interval`). */
export const VERIFICATION_INTERVAL_S = 30;

/** What a receiver sets of a stream. */
export interface StreamSettings {
  /** Where to push; null for polling. */
  readonly push: PushTarget | null;
  /** Null for every supported type. */
  readonly events_requested: readonly string[] | null;
  readonly description: string | null;
}

export interface PushTarget {
  readonly url: string;
  /** Value of the Authorization header; null for none, undefined to keep it. */
  readonly authorization: string | null | undefined;
}

/** A stream's status as its receiver sees it. */
export interface ShownStatus {
  readonly status: StreamStatus;
  readonly reason: string | null;
}

export interface StreamServiceOptions extends OwnEventServices {
  /** Role signet_api. */
  readonly pool: Pool;
  readonly keyring: Keyring;
  /** Public URL, `iss` of the tokens. */
  readonly issuer: string;
  readonly headerBrand: string;
  /** Checks a target by the address policy. Returns the URL to store. */
  readonly checkUrl: (url: string) => URL;
  /** Returns the maximum number of endpoints of a tenant. */
  readonly endpointsMax: (tenantId: string) => Promise<number>;
  readonly endpoints: Pick<EndpointService, "kick" | "limitPings">;
  readonly replays: Pick<ReplayService, "count" | "create" | "kick">;
}

/** The endpoint of a stream takes no event by its type. */
const NO_EVENTS = Object.fromEntries(
  ENDPOINT_SETTINGS.map((setting) => [setting.key, setting.wire === "events" ? [] : defaultOf(setting)]),
) as unknown as EndpointSettings;

type PushInput = Pick<SettingsInput, "url" | "authentication">;
type CheckedPush = ReturnType<typeof checkSettings<PushInput>>;

function authenticationOf({ authorization }: PushTarget) {
  return typeof authorization === "string"
    ? ({ type: "header", name: "Authorization", value: authorization } as const)
    : authorization;
}

/**
 * Returns the status. A stream is paused while its endpoint is disabled: its tokens become dead letters, which are
 * sent once the receiver enables the stream again.
 */
export function statusOf({ status, ...stream }: Stream): ShownStatus {
  return status === "enabled" && stream.endpoint_state === "DISABLED"
    ? { status: "paused", reason: `the endpoint is disabled: ${stream.disabled_reason ?? "unknown"}` }
    : { status, reason: stream.status_reason };
}

export class StreamService {
  readonly #options: StreamServiceOptions;

  constructor(options: StreamServiceOptions) {
    this.#options = options;
  }

  /** @throws SignetError TARGET_URL_FORBIDDEN, VALIDATION_FAILED, LIMIT_EXCEEDED */
  async create(tenantId: string, settings: StreamSettings, by: By): Promise<Stream> {
    const { pool, issuer, clock, randomBytes } = this.#options;
    const now = new Date(clock.now());
    const id = newId("stream", now.getTime(), randomBytes);
    const { push, ...others } = settings;
    const checked = push === null ? null : this.#check(push);
    const { stream, endpoint } = await tenantTransaction(pool, tenantId, async (db) => {
      if ((await countStreams(db, tenantId)) >= STREAMS_MAX) {
        throw new SignetError("LIMIT_EXCEEDED", {
          detail: `The tenant can have at most ${STREAMS_MAX} streams.`,
        });
      }
      const made = checked && (await this.#register(db, { tenantId, id }, checked));
      const row = { id, tenant_id: tenantId, issuer, endpoint_id: made?.id ?? null, ...others };
      await insertStream(db, row, now);
      const created = found(await findStream(db, tenantId, id), "stream");
      const details = { method: made === null ? "poll" : "push", endpoint_id: made?.id ?? null };
      await this.#log(db, created, { what: "created", by, details });
      return { stream: created, endpoint: made };
    });
    if (endpoint !== null) {
      this.#options.endpoints.kick(endpoint);
    }
    return stream;
  }

  async list(tenantId: string): Promise<Stream[]> {
    return await tenantRead(this.#options.pool, tenantId, async (db) => await listStreams(db, tenantId));
  }

  /** @throws SignetError NOT_FOUND */
  async find(tenantId: string, id: string): Promise<Stream> {
    return await tenantRead(this.#options.pool, tenantId, async (db) =>
      found(await findStream(db, tenantId, id), "stream"),
    );
  }

  /**
   * Changes the settings that `changesOf` returns for the current stream. A new URL is verified before tokens are sent
   * to it. The delivery method stays.
   *
   * @throws SignetError NOT_FOUND, INVALID_STATE for another method, or another URL while the stream is not enabled;
   * TARGET_URL_FORBIDDEN, VALIDATION_FAILED, RATE_LIMITED
   */
  async update(
    tenantId: string,
    id: string,
    changesOf: (current: Stream) => Partial<StreamSettings>,
    by: By,
  ): Promise<Stream> {
    const { stream, redirected } = await this.#change(tenantId, id, async (db, current) => {
      const { push, ...others } = changesOf(current);
      const endpoint = push === undefined ? null : await this.#retarget(db, current, push);
      await saveStream(db, { ...current, ...others });
      const changed = [
        ...(others.events_requested === undefined ? [] : ["events_requested"]),
        ...(others.description === undefined ? [] : ["description"]),
        ...(endpoint === null ? [] : ["delivery"]),
      ];
      await this.#log(db, current, { what: "updated", by, details: { changed } });
      return endpoint?.state === "PENDING" ? endpoint : null;
    });
    if (redirected !== null) {
      this.#options.endpoints.kick(redirected);
    }
    return stream;
  }

  /** Deletes the stream and its unsent tokens. @throws SignetError NOT_FOUND */
  async remove(tenantId: string, id: string, by: By): Promise<void> {
    const { pool, clock } = this.#options;
    const now = new Date(clock.now());
    await tenantTransaction(pool, tenantId, async (db) => {
      const current = found(await lockStream(db, tenantId, id), "stream");
      await deleteStream(db, tenantId, id);
      if (current.endpoint_id !== null) {
        const at = { tenantId, id: current.endpoint_id, now };
        await moveEndpoint(db, at, "delete");
        await eraseSecrets(db, at);
        await eraseAuthentication(db, tenantId, current.endpoint_id);
      }
      await this.#log(db, current, { what: "deleted", by });
    });
  }

  /**
   * Sets the status. A paused stream holds its tokens for the time of dead letters, a disabled one gets none. Enabling
   * sends what was held.
   *
   * @throws SignetError NOT_FOUND, INVALID_STATE while the tenant is held, LIMIT_EXCEEDED for too many open replays
   */
  async setStatus(tenantId: string, id: string, wanted: ShownStatus, by: By): Promise<Stream> {
    const { clock, endpoints, replays } = this.#options;
    const { status, reason: statusReason } = wanted;
    let started: { readonly endpoint: Endpoint | undefined; readonly job: ReplayJob | undefined } | undefined;
    const { stream } = await this.#change(tenantId, id, async (db, current) => {
      const before = statusOf(current);
      await saveStream(db, { ...current, status, status_reason: statusReason });
      if (current.endpoint_id !== null) {
        const at = { tenantId, id: current.endpoint_id, now: new Date(clock.now()) };
        started = status === "enabled" ? await this.#resume(db, at, by) : undefined;
        if (status !== "enabled" && current.endpoint_state !== "DISABLED") {
          await moveEndpoint(db, at, "disable");
        }
      }
      const details = { status: { before: before.status, after: status } };
      await this.#log(db, current, { what: "updated", by, details });
      return null;
    });
    if (started?.endpoint?.state === "PENDING") {
      endpoints.kick(started.endpoint);
    }
    if (started?.job !== undefined) {
      replays.kick(started.job);
    }
    return stream;
  }

  /**
   * Removes a subject from a stream, or adds it again. Every subject is in a new stream.
   *
   * @throws SignetError NOT_FOUND, LIMIT_EXCEEDED
   */
  async setSubject(
    tenantId: string,
    id: string,
    { subject, included }: { readonly subject: SubjectId; readonly included: boolean },
    by: By,
  ): Promise<void> {
    await tenantTransaction(this.#options.pool, tenantId, async (db) => {
      const current = found(await lockStream(db, tenantId, id), "stream");
      const place = { tenantId, id, subject: subjectText(subject) };
      if (!included && (await countRemovedSubjects(db, id)) >= REMOVED_SUBJECTS_MAX) {
        throw new SignetError("LIMIT_EXCEEDED", {
          detail: `At most ${REMOVED_SUBJECTS_MAX} subjects can be removed from a stream.`,
        });
      }
      const changed = await (included ? addSubject : removeSubject)(db, place);
      if (changed) {
        const details = { subject: place.subject, subject_is: included ? "added" : "removed" };
        await this.#log(db, current, { what: "updated", by, details });
      }
    });
  }

  /** Sends a verification event. @throws SignetError NOT_FOUND, RATE_LIMITED */
  async verify(tenantId: string, id: string, state: string | undefined): Promise<void> {
    const { pool, clock } = this.#options;
    const now = new Date(clock.now());
    const intervalMs = VERIFICATION_INTERVAL_S * 1_000;
    await tenantTransaction(pool, tenantId, async (db) => {
      const stream = found(await findStream(db, tenantId, id), "stream");
      const since = new Date(now.getTime() - intervalMs);
      if (!(await takeVerification(db, { tenantId, id, now, since }))) {
        const detail = `A stream can be verified once in ${VERIFICATION_INTERVAL_S} seconds.`;
        throw tooManyRequests(intervalMs, detail);
      }
      await publishVerification(db, stream, state, this.#options);
    });
  }

  #check(push: PushTarget): CheckedPush {
    const { headerBrand, checkUrl, clock } = this.#options;
    const authentication = authenticationOf(push);
    return checkSettings<PushInput>(
      { url: push.url, ...(authentication === undefined ? {} : { authentication }) },
      { headerBrand, checkUrl, nowMs: clock.now() },
    );
  }

  async #register(
    db: Queryable,
    { tenantId, id }: { readonly tenantId: string; readonly id: string },
    { settings, secret }: CheckedPush,
  ): Promise<Endpoint> {
    const registration = {
      ...NO_EVENTS,
      ...settings,
      description: `Stream ${id}`,
      authenticationSecret: secret,
      tenantId,
      streamId: id,
      idempotency: null,
    };
    return (await registerEndpoint(db, registration, this.#options)).endpoint;
  }

  /** Saves another target of a push stream. */
  async #retarget(db: Queryable, current: Stream, push: PushTarget | null): Promise<Endpoint | null> {
    const { keyring, clock } = this.#options;
    const { tenant_id: tenantId, endpoint_id: endpointId } = current;
    if ((endpointId === null) !== (push === null)) {
      throw new SignetError("INVALID_STATE", {
        detail: "The delivery method of a stream cannot change: create another stream.",
      });
    }
    if (push === null || endpointId === null) {
      return null;
    }
    const { settings, secret } = this.#check(push);
    const endpoint = found(await lockEndpoint(db, tenantId, endpointId), "endpoint");
    requireSecretAgain(endpoint, { ...endpoint, ...settings }, secret, "/delivery/authorization_header");
    const redirects = settings.url !== endpoint.url;
    if (redirects && !mayMove("redirect", endpoint)) {
      throw new SignetError("INVALID_STATE", {
        detail: `The stream is ${statusOf(current).status}: enable it before you change its URL.`,
      });
    }
    if (redirects) {
      this.#options.endpoints.limitPings(endpointId);
    }
    const at = { tenantId, id: endpointId, now: new Date(clock.now()) };
    const saved = found(await saveSettings(db, at, { ...endpoint, ...settings }), "endpoint");
    await sealAuthentication(db, saved, secret, keyring);
    return redirects ? found(await moveEndpoint(db, at, "redirect"), "endpoint") : saved;
  }

  /** Enables the endpoint of a stream and replays what was held. An endpoint that never answered is pinged again. */
  async #resume(
    db: Queryable,
    at: { readonly tenantId: string; readonly id: string; readonly now: Date },
    by: By,
  ): Promise<{ readonly endpoint: Endpoint | undefined; readonly job: ReplayJob | undefined }> {
    const { replays } = this.#options;
    const before = found(await lockEndpoint(db, at.tenantId, at.id), "endpoint");
    const endpoint =
      before.state === "DISABLED"
        ? await moveEndpoint(db, at, before.verified_at === null ? "enable" : "resume")
        : undefined;
    const selection = { filter: { endpointId: at.id } };
    const request = { selection, ratePerSecond: REPLAY_RATE.default };
    if (endpoint === undefined) {
      return { endpoint, job: undefined };
    }
    const { total, complete } = await replays.count(db, at.tenantId, request);
    const job = total === 0 && complete ? undefined : await replays.create(db, at.tenantId, request, by);
    return { endpoint, job };
  }

  async #change(
    tenantId: string,
    id: string,
    work: (db: Queryable, current: Stream) => Promise<Endpoint | null>,
  ): Promise<{ readonly stream: Stream; readonly redirected: Endpoint | null }> {
    return await tenantTransaction(this.#options.pool, tenantId, async (db) => {
      const current = found(await lockStream(db, tenantId, id), "stream");
      const redirected = await work(db, current);
      return { stream: found(await findStream(db, tenantId, id), "stream"), redirected };
    });
  }

  async #log(
    db: Queryable,
    { id, tenant_id: tenantId }: Pick<Stream, "id" | "tenant_id">,
    {
      what,
      by,
      details,
    }: {
      readonly what: "created" | "updated" | "deleted";
      readonly by: By;
      readonly details?: ComplianceEntry["details"];
    },
  ): Promise<void> {
    const entry = { ...by, type: `ssf_stream.${what}`, tenant: tenantId, target: id } as const;
    await appendEntry(db, details === undefined ? entry : { ...entry, details }, this.#options);
  }
}
