/** Operations of tenants on endpoints: register, read, change, disable, enable, delete, and ping again. */
import type { Logger } from "pino";
import { appendEntry, type By } from "#compliance/append-entry.ts";
import type { ComplianceEntry } from "#compliance/entry.ts";
import type { Keyring } from "#crypto/keyring.ts";
import type { Pool, Queryable } from "#database/pool.ts";
import { eraseAuthentication } from "#database/repositories/endpoints/endpoint-authentications.ts";
import { nextGeneration, wantVerification } from "#database/repositories/endpoints/endpoint-verifications.ts";
import {
  type Endpoint,
  eraseSecrets,
  findEndpoint,
  type EndpointPage,
  listEndpoints,
  lockEndpoint,
  moveEndpoint,
  saveSettings,
} from "#database/repositories/endpoints/endpoints.ts";
import {
  findActivity,
  listUnhealthy,
  type ReportedActivity,
} from "#database/repositories/webhooks/delivery-counts.ts";
import type { Delivery } from "#database/repositories/webhooks/deliveries.ts";
import { tenantRead, tenantTransaction } from "#database/transaction.ts";
import type { Clock } from "#domain/clock.ts";
import type { RandomBytes } from "#domain/ids.ts";
import type { Health } from "#domain/endpoint-health.ts";
import { type EndpointMoveName, mayMove } from "#domain/endpoint-state.ts";
import { SlidingWindow } from "#domain/sliding-window.ts";
import { publishOwnEvent } from "../ingest/own-event.ts";
import type { EndpointSettings } from "#domain/endpoint-settings.ts";
import { found, SignetError, tooManyRequests } from "#domain/errors.ts";
import type { RequestRules } from "../sending/authentication.ts";
import { requireWebhooks } from "../sending/delivery-format.ts";
import { type Registered, type Registration, registerEndpoint } from "./registration.ts";
import { publishTestEvent, type TestEvent } from "./test-event.ts";
import {
  changeSettings,
  checkSettings,
  requireSecretAgain,
  sealAuthentication,
  type SettingsInput,
} from "./settings.ts";
import type { Verification } from "./verification.ts";

/** Abuse limits (security decisions H). */
const VERIFY_LIMITS = [
  { count: 6, perMs: 60_000 },
  { count: 30, perMs: 3_600_000 },
];
/** Enough for trying out, too few for publishing. */
const TEST_LIMITS = [{ count: 60, perMs: 60_000 }];
const LIMITED_MAX = 10_000;

export interface EndpointServiceOptions {
  readonly pool: Pool;
  readonly keyring: Keyring;
  readonly verification: Verification;
  /** Checks a target by the address policy. Returns the URL to store. */
  readonly checkUrl: (url: string) => URL;
  /** Returns the maximum number of endpoints of a tenant. */
  readonly endpointsMax: (tenantId: string) => Promise<number>;
  /** Brand in `X-Service-Signature-256`. Tenants cannot set headers with it. */
  readonly headerBrand: string;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly deadLetterMs: number;
  readonly log: Logger;
}

export class EndpointService {
  readonly #options: EndpointServiceOptions;
  readonly #kicks = new Set<Promise<void>>();
  readonly #verifyWindow = new SlidingWindow(VERIFY_LIMITS, LIMITED_MAX);
  readonly #testWindow = new SlidingWindow(TEST_LIMITS, LIMITED_MAX);

  constructor(options: EndpointServiceOptions) {
    this.#options = options;
  }

  /** @throws SignetError TARGET_URL_FORBIDDEN, VALIDATION_FAILED, LIMIT_EXCEEDED, IDEMPOTENCY_KEY_REUSED */
  async register(tenantId: string, registration: Registration, by: By): Promise<Registered> {
    const { pool } = this.#options;
    const { settings, secret } = checkSettings(registration, this.#rules());
    const complete = {
      headers: null,
      authentication: null,
      ...settings,
      authenticationSecret: secret,
      tenantId,
    };
    const registered = await tenantTransaction(pool, tenantId, async (db) => {
      const made = await registerEndpoint(db, complete, this.#options);
      if (!made.replayed) {
        const { id, event_types: events } = made.endpoint;
        // The URL is left out: it can contain a secret, and entries are permanent.
        await this.#log(db, {
          ...by,
          type: "endpoint.created",
          tenant: tenantId,
          target: id,
          details: { events },
        });
      }
      return made;
    });
    if (!registered.replayed) {
      this.kick(registered.endpoint);
    }
    return registered;
  }

  /** Returns why a target URL is not allowed, as a sentence; undefined if it is. */
  urlProblem(url: string): string | undefined {
    try {
      this.#options.checkUrl(url);
      return undefined;
    } catch (error) {
      if (error instanceof SignetError) {
        return error.message;
      }
      throw error;
    }
  }

  /** @throws SignetError NOT_FOUND */
  async find(tenantId: string, id: string): Promise<Endpoint> {
    const endpoint = await tenantTransaction(
      this.#options.pool,
      tenantId,
      async (db) => await findEndpoint(db, tenantId, id),
    );
    return found(endpoint, "endpoint");
  }

  /** Returns the activity of the tenant's endpoints, by id, with the attempts of this hour and the one before. */
  async activity(
    tenantId: string,
    endpointIds: readonly string[],
  ): Promise<ReadonlyMap<string, ReportedActivity>> {
    const { pool, clock } = this.#options;
    const now = new Date(clock.now());
    return await tenantRead(
      pool,
      tenantId,
      async (db) => await findActivity(db, { tenantId, endpointIds, now }),
    );
  }

  /** Returns the tenant's endpoints that are not healthy. */
  async unhealthy(tenantId: string): Promise<readonly { endpoint_id: string; health: Health }[]> {
    const { pool } = this.#options;
    return await tenantRead(pool, tenantId, async (db) => await listUnhealthy(db, tenantId));
  }

  /** Lists endpoints, newest first, after the endpoint `before` if given. */
  async list(tenantId: string, page: EndpointPage): Promise<Endpoint[]> {
    const { pool } = this.#options;
    return await tenantTransaction(pool, tenantId, async (db) => await listEndpoints(db, tenantId, page));
  }

  /**
   * Changes the given settings. A new URL has not been acknowledged, so the endpoint becomes PENDING again. With another
   * origin, the secret of an authentication must be given again.
   *
   * @throws SignetError NOT_FOUND, TARGET_URL_FORBIDDEN, VALIDATION_FAILED, RATE_LIMITED
   */
  async update(
    tenantId: string,
    id: string,
    change: SettingsInput<Partial<EndpointSettings>>,
    by: By,
  ): Promise<Endpoint> {
    const { pool, keyring } = this.#options;
    const { settings: checked, secret } = checkSettings(change, this.#rules());
    const { endpoint, pings } = await tenantTransaction(pool, tenantId, async (db) => {
      const current = requireWebhooks(found(await lockEndpoint(db, tenantId, id), "endpoint"));
      const { settings, changed } = changeSettings(current, checked);
      if (changed.length === 0) {
        return { endpoint: current, pings: false };
      }
      requireSecretAgain(current, settings, secret);
      const at = { tenantId, id, now: new Date(this.#options.clock.now()) };
      const redirected = settings.url !== current.url && mayMove("redirect", current);
      let saved = await saveSettings(db, at, settings);
      await sealAuthentication(db, found(saved, "endpoint"), secret, keyring);
      if (redirected) {
        this.limitPings(id);
        saved = await moveEndpoint(db, at, "redirect");
      }
      const details = { changed, ...(changed.includes("events") ? { events: settings.event_types } : {}) };
      await this.#log(db, { ...by, type: "endpoint.updated", tenant: tenantId, target: id, details });
      return { endpoint: found(saved, "endpoint"), pings: redirected };
    });
    if (pings) {
      this.kick(endpoint);
    }
    return endpoint;
  }

  /**
   * Pings the endpoint like a new one. It becomes ACTIVE once it acknowledges.
   *
   * @throws SignetError NOT_FOUND, INVALID_STATE if it is not DISABLED, RATE_LIMITED
   */
  async enable(tenantId: string, id: string, by: By): Promise<Endpoint> {
    const endpoint = await this.#move(tenantId, id, "enable", async (db) => {
      this.limitPings(id);
      await this.#log(db, { ...by, type: "endpoint.enabled", tenant: tenantId, target: id });
    });
    this.kick(endpoint);
    return endpoint;
  }

  /**
   * Disables the endpoint. Its new events become dead letters; waiting deliveries do so at their next attempt.
   *
   * @throws SignetError NOT_FOUND, INVALID_STATE if its tenant disabled it before
   */
  async disable(tenantId: string, id: string, by: By): Promise<Endpoint> {
    return await this.#move(tenantId, id, "disable", async (db) => {
      const details = { reason: "tenant" };
      const disabledAt = new Date(this.#options.clock.now()).toISOString();
      const data = JSON.stringify({ endpoint_id: id, ...details, disabled_at: disabledAt });
      await publishOwnEvent(db, { tenantId, type: "endpoint.disabled", data, except: id }, this.#options);
      await this.#log(db, { ...by, type: "endpoint.disabled", tenant: tenantId, target: id, details });
    });
  }

  /**
   * Deletes the endpoint and erases its secrets. Waiting deliveries become CANCELLED at their next attempt.
   *
   * @throws SignetError NOT_FOUND
   */
  async remove(tenantId: string, id: string, by: By): Promise<void> {
    await this.#move(tenantId, id, "delete", async (db) => {
      await eraseSecrets(db, { tenantId, id, now: new Date(this.#options.clock.now()) });
      await eraseAuthentication(db, tenantId, id);
      await this.#log(db, { ...by, type: "endpoint.deleted", tenant: tenantId, target: id });
    });
  }

  /**
   * Pings the endpoint again now.
   *
   * @throws SignetError NOT_FOUND, INVALID_STATE if the endpoint does not wait for verification, RATE_LIMITED
   */
  async verify(tenantId: string, id: string): Promise<Endpoint> {
    const { pool, clock } = this.#options;
    const endpoint = await tenantTransaction(pool, tenantId, async (db) => {
      const current = found(await findEndpoint(db, tenantId, id), "endpoint");
      if (current.state !== "PENDING") {
        throw new SignetError("INVALID_STATE", {
          detail: `The endpoint is ${current.state}: only PENDING endpoints can be verified.`,
        });
      }
      this.limitPings(id);
      return await wantVerification(db, { tenantId, id, now: new Date(clock.now()) });
    });
    if (endpoint === undefined) {
      throw new SignetError("INVALID_STATE", { detail: "The endpoint was just verified or changed." });
    }
    this.kick(endpoint);
    return endpoint;
  }

  /**
   * Publishes an event to this endpoint only.
   *
   * @returns its delivery, not yet attempted
   * @throws SignetError NOT_FOUND, INVALID_STATE if the endpoint is not ACTIVE, RATE_LIMITED
   */
  async sendTest(tenantId: string, id: string, event: TestEvent): Promise<Delivery> {
    const delivery = await tenantTransaction(this.#options.pool, tenantId, async (db) => {
      const current = requireWebhooks(found(await lockEndpoint(db, tenantId, id), "endpoint"));
      if (current.state !== "ACTIVE") {
        throw new SignetError("INVALID_STATE", {
          detail: `The endpoint is ${current.state}: only ACTIVE endpoints receive events.`,
        });
      }
      this.#limit(this.#testWindow, id, "An endpoint accepts at most 60 test events per minute.");
      return await publishTestEvent(db, current, event, this.#options);
    });
    return found(delivery, "endpoint");
  }

  /** Changes the endpoint's state and runs related work in the same transaction. */
  async #move(
    tenantId: string,
    id: string,
    name: EndpointMoveName,
    alongside: (db: Queryable) => Promise<void>,
  ): Promise<Endpoint> {
    const { pool, clock } = this.#options;
    return await tenantTransaction(pool, tenantId, async (db) => {
      const current = requireWebhooks(found(await lockEndpoint(db, tenantId, id), "endpoint"));
      if (!mayMove(name, current)) {
        throw new SignetError("INVALID_STATE", { detail: `The endpoint is ${current.state}.` });
      }
      const moved = await moveEndpoint(db, { tenantId, id, now: new Date(clock.now()) }, name);
      await alongside(db);
      return found(moved, "endpoint");
    });
  }

  #rules(): RequestRules {
    const { headerBrand, checkUrl, clock } = this.#options;
    return { headerBrand, checkUrl, nowMs: clock.now() };
  }

  async #log(db: Queryable, entry: ComplianceEntry): Promise<void> {
    await appendEntry(db, entry, this.#options);
  }

  /** Resolves when no verification is being started. */
  async drain(): Promise<void> {
    await Promise.allSettled(this.#kicks);
  }

  /** Counts a ping of an endpoint. @throws SignetError RATE_LIMITED */
  limitPings(id: string): void {
    this.#limit(
      this.#verifyWindow,
      id,
      "An endpoint can be pinged at most 6 times per minute and 30 times per hour.",
    );
  }

  #limit(window: SlidingWindow, id: string, detail: string): void {
    const waitMs = window.take(id, this.#options.clock.now());
    if (waitMs > 0) {
      throw tooManyRequests(waitMs, detail);
    }
  }

  /**
   * Has an endpoint pinged that a committed transaction has made PENDING. The caller does not wait for Temporal, and the
   * sweep repeats a failed start.
   */
  kick({ id, tenant_id: tenantId, generation }: Pick<Endpoint, "id" | "tenant_id" | "generation">): void {
    const { pool, log, verification } = this.#options;
    const countUp = async (): Promise<number | undefined> =>
      await tenantTransaction(pool, tenantId, async (db) => await nextGeneration(db, id, generation));
    const kick = verification
      .kick({ id, tenant_id: tenantId, generation }, countUp)
      .catch((error: unknown) =>
        log.warn({ err: error, tenant_id: tenantId, endpoint_id: id }, "verification not started yet"),
      )
      .finally(() => this.#kicks.delete(kick));
    this.#kicks.add(kick);
  }
}
