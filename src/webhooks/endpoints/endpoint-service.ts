/** What tenants do with endpoints: register, look, change, disable and enable, delete, ask for another ping. */
import type { Logger } from "pino";
import { appendEntry, type By } from "../../compliance/append-entry.ts";
import type { ComplianceEntry } from "../../compliance/entry.ts";
import type { Keyring } from "../../crypto/keyring.ts";
import type { Pool, Queryable } from "../../database/pool.ts";
import { eraseAuthentication } from "../../database/repositories/endpoints/endpoint-authentications.ts";
import {
  nextGeneration,
  wantVerification,
} from "../../database/repositories/endpoints/endpoint-verifications.ts";
import {
  type Endpoint,
  type EndpointSettings,
  eraseSecrets,
  findEndpoint,
  type EndpointPage,
  listEndpoints,
  lockEndpoint,
  moveEndpoint,
  saveSettings,
} from "../../database/repositories/endpoints/endpoints.ts";
import type { Delivery } from "../../database/repositories/webhooks/deliveries.ts";
import { tenantTransaction } from "../../database/transaction.ts";
import type { Clock } from "../../domain/clock.ts";
import type { RandomBytes } from "../../domain/ids.ts";
import { type EndpointMoveName, mayMove } from "../../domain/endpoint-state.ts";
import { createSlidingWindow, type SlidingWindow } from "../../domain/sliding-window.ts";
import { publishOwnEvent } from "../ingest/own-event.ts";
import { SignetError } from "../../domain/errors.ts";
import type { RequestRules } from "../sending/authentication.ts";
import { type Registered, type Registration, registerEndpoint } from "./registration.ts";
import { publishTestEvent, type TestEvent } from "./test-event.ts";
import { changeSettings, checkSettings, sealAuthentication, type SettingsInput } from "./settings.ts";
import type { Verification } from "./verification.ts";

/** Security decisions H: abuse caps. */
const VERIFY_LIMITS = [
  { count: 6, perMs: 60_000 },
  { count: 30, perMs: 3_600_000 },
];
/** Enough to try something out, and no way to publish. */
const TEST_LIMITS = [{ count: 60, perMs: 60_000 }];
const LIMITED_MAX = 10_000;

export interface EndpointServiceOptions {
  readonly pool: Pool;
  readonly keyring: Keyring;
  readonly verification: Verification;
  /** The address policy's check of a target; returns the URL as it is kept. */
  readonly checkUrl: (url: string) => URL;
  /** How many endpoints a tenant may have. */
  readonly endpointsMax: (tenantId: string) => Promise<number>;
  /** The word in `X-Service-Signature-256`; tenants set no headers with it. */
  readonly headerBrand: string;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly deadLetterMs: number;
  readonly log: Logger;
}

export class EndpointService {
  readonly #options: EndpointServiceOptions;
  readonly #kicks = new Set<Promise<void>>();
  readonly #verifyWindow = createSlidingWindow(VERIFY_LIMITS, LIMITED_MAX);
  readonly #testWindow = createSlidingWindow(TEST_LIMITS, LIMITED_MAX);

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
        const { id, eventTypes: events } = made.endpoint;
        // Without the URL, which can hold a secret, and which an entry could never give back.
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
      this.#kick(registered.endpoint);
    }
    return registered;
  }

  /** @throws SignetError NOT_FOUND */
  async find(tenantId: string, id: string): Promise<Endpoint> {
    const endpoint = await tenantTransaction(
      this.#options.pool,
      tenantId,
      async (db) => await findEndpoint(db, tenantId, id),
    );
    return endpoint ?? notFound();
  }

  /** Newest first, after the endpoint `before` if one is named. */
  async list(tenantId: string, page: EndpointPage): Promise<Endpoint[]> {
    const { pool } = this.#options;
    return await tenantTransaction(pool, tenantId, async (db) => await listEndpoints(db, tenantId, page));
  }

  /**
   * Changes what is named and leaves the rest. Another URL has acknowledged nothing: the endpoint is PENDING again.
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
      const current = (await lockEndpoint(db, tenantId, id)) ?? notFound();
      const { settings, changed } = changeSettings(current, checked);
      if (changed.length === 0) {
        return { endpoint: current, pings: false };
      }
      const at = { tenantId, id, now: new Date(this.#options.clock.now()) };
      const redirected = settings.url !== current.url && mayMove("redirect", current);
      let saved = await saveSettings(db, at, settings);
      await sealAuthentication(db, saved ?? notFound(), secret, keyring);
      if (redirected) {
        this.#limitPings(id);
        saved = await moveEndpoint(db, at, "redirect");
      }
      const details = { changed, ...(changed.includes("events") ? { events: settings.eventTypes } : {}) };
      await this.#log(db, { ...by, type: "endpoint.updated", tenant: tenantId, target: id, details });
      return { endpoint: saved ?? notFound(), pings: redirected };
    });
    if (pings) {
      this.#kick(endpoint);
    }
    return endpoint;
  }

  /**
   * Pings it like a new one; once that is acknowledged it is ACTIVE.
   *
   * @throws SignetError NOT_FOUND, INVALID_STATE when it is not DISABLED, RATE_LIMITED
   */
  async enable(tenantId: string, id: string, by: By): Promise<Endpoint> {
    const endpoint = await this.#move(tenantId, id, "enable", async (db) => {
      this.#limitPings(id);
      await this.#log(db, { ...by, type: "endpoint.enabled", tenant: tenantId, target: id });
    });
    this.#kick(endpoint);
    return endpoint;
  }

  /**
   * Its events become dead letters, those that wait for another attempt when that comes.
   *
   * @throws SignetError NOT_FOUND, INVALID_STATE when it was disabled by its tenant before
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
   * Its waiting deliveries end as CANCELLED when their next attempt comes; its secrets are erased now.
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
   * Pings again, now.
   *
   * @throws SignetError NOT_FOUND, INVALID_STATE when the endpoint does not wait for verification, RATE_LIMITED
   */
  async verify(tenantId: string, id: string): Promise<Endpoint> {
    const { pool, clock } = this.#options;
    const endpoint = await tenantTransaction(pool, tenantId, async (db) => {
      const current = (await findEndpoint(db, tenantId, id)) ?? notFound();
      if (current.state !== "PENDING") {
        throw new SignetError("INVALID_STATE", {
          detail: `The endpoint is ${current.state}: only a PENDING one waits for verification.`,
        });
      }
      this.#limitPings(id);
      return await wantVerification(db, { tenantId, id, now: new Date(clock.now()) });
    });
    if (endpoint === undefined) {
      throw new SignetError("INVALID_STATE", { detail: "The endpoint was verified or changed just now." });
    }
    this.#kick(endpoint);
    return endpoint;
  }

  /**
   * Publishes an event to this endpoint alone.
   *
   * @returns its delivery, not yet attempted
   * @throws SignetError NOT_FOUND, INVALID_STATE when the endpoint is not ACTIVE, RATE_LIMITED
   */
  async sendTest(tenantId: string, id: string, event: TestEvent): Promise<Delivery> {
    const delivery = await tenantTransaction(this.#options.pool, tenantId, async (db) => {
      const current = (await lockEndpoint(db, tenantId, id)) ?? notFound();
      if (current.state !== "ACTIVE") {
        throw new SignetError("INVALID_STATE", {
          detail: `The endpoint is ${current.state}: only an ACTIVE one gets events.`,
        });
      }
      this.#limit(this.#testWindow, id, "An endpoint can be sent 60 test events a minute.");
      return await publishTestEvent(db, current, event, this.#options);
    });
    return delivery ?? notFound();
  }

  /** Moves an endpoint, and does in the same transaction what goes with it. */
  async #move(
    tenantId: string,
    id: string,
    name: EndpointMoveName,
    alongside: (db: Queryable) => Promise<void>,
  ): Promise<Endpoint> {
    const { pool, clock } = this.#options;
    return await tenantTransaction(pool, tenantId, async (db) => {
      const current = (await lockEndpoint(db, tenantId, id)) ?? notFound();
      if (!mayMove(name, current)) {
        throw new SignetError("INVALID_STATE", { detail: `The endpoint is ${current.state}.` });
      }
      const moved = await moveEndpoint(db, { tenantId, id, now: new Date(clock.now()) }, name);
      await alongside(db);
      return moved ?? notFound();
    });
  }

  #rules(): RequestRules {
    const { headerBrand, checkUrl, clock } = this.#options;
    return { headerBrand, checkUrl, nowMs: clock.now() };
  }

  /** The last step of a transaction: the log's head stays locked until it commits. */
  async #log(db: Queryable, entry: ComplianceEntry): Promise<void> {
    await appendEntry(db, entry, this.#options);
  }

  /** Resolves when no start of a verification is under way. */
  async drain(): Promise<void> {
    await Promise.allSettled(this.#kicks);
  }

  #limitPings(id: string): void {
    this.#limit(this.#verifyWindow, id, "An endpoint can be pinged 6 times a minute and 30 times an hour.");
  }

  #limit(window: SlidingWindow, id: string, detail: string): void {
    const waitMs = window.take(id, this.#options.clock.now());
    if (waitMs > 0) {
      throw new SignetError("RATE_LIMITED", {
        detail,
        headers: { "retry-after": String(Math.ceil(waitMs / 1_000)) },
      });
    }
  }

  /** After the commit: the answer does not wait for Temporal, and the sweep repeats what fails here. */
  #kick({ id, tenantId, generation }: Endpoint): void {
    const { pool, log, verification } = this.#options;
    const countUp = async (): Promise<number | undefined> =>
      await tenantTransaction(pool, tenantId, async (db) => await nextGeneration(db, id, generation));
    const kick = verification
      .kick({ id, tenantId, generation }, countUp)
      .catch((error: unknown) =>
        log.warn({ err: error, tenant_id: tenantId, endpoint_id: id }, "verification not started yet"),
      )
      .finally(() => this.#kicks.delete(kick));
    this.#kicks.add(kick);
  }
}

function notFound(): never {
  throw new SignetError("NOT_FOUND", { detail: "There is no such endpoint." });
}
