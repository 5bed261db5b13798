/** Webhook endpoints. */
import type { Delivery } from "./delivery-types.ts";
import { EndpointSecrets } from "./endpoint-secrets.ts";
import type { Grade, GradeSummary } from "./grades.ts";
import { idempotencyKeyOf, type IdempotentOptions } from "../idempotency.ts";
import { List, type PageOptions } from "../paging.ts";
import type { MissedEvents, ReplayJob } from "./replays.ts";
import { type CallOptions, segment, type Transport } from "../transport.ts";

const PATH = "/v1/webhooks/endpoints";

/** How deliveries authenticate to the receiver. Secrets are write-only. */
export type NewAuthentication =
  | { readonly type: "header"; readonly name: string; readonly value: string }
  | {
      readonly type: "oauth2_client_credentials";
      readonly token_url: string;
      readonly client_id: string;
      readonly client_secret: string;
      readonly scope?: string;
    }
  /** PEM; intermediate certificates may follow. */
  | { readonly type: "client_certificate"; readonly certificate: string; readonly private_key: string };

export type Authentication = { readonly updated_at: string } & (
  | { readonly type: "header"; readonly name: string }
  | {
      readonly type: "oauth2_client_credentials";
      readonly token_url: string;
      readonly client_id: string;
      readonly scope?: string;
    }
  | {
      readonly type: "client_certificate";
      /** SHA-256, hexadecimal. */
      readonly fingerprint: string;
      readonly subject: string;
      readonly not_after: string;
    }
);

interface RequestSettings {
  /** Additional headers of every delivery, at most 16. They are readable: secrets belong under `authentication`. */
  readonly headers?: Readonly<Record<string, string>> | null;
  readonly authentication?: NewAuthentication | null;
}

export interface NewEndpoint extends RequestSettings {
  readonly url: string;
  /** Event types, or `["*"]` for all. */
  readonly events: readonly string[];
  /** Sent with every delivery; at most 4 KiB of JSON. */
  readonly metadata?: object | null;
  readonly description?: string | null;
  /** A query document with MongoDB's operators over `type` and `data`, for instance `{"data.amount": {"$gte": 100}}`. */
  readonly filter?: object | null;
  /** Whether only an answer that holds the ping's challenge verifies the endpoint. */
  readonly require_echo?: boolean;
  /** Deliveries per second at most, 1 to 1000; null for no limit. */
  readonly rate_limit?: number | null;
}

/** Absent members stay; `null` removes. */
export interface EndpointChange extends RequestSettings {
  /** A new URL makes the endpoint PENDING, and is pinged. */
  readonly url?: string;
  readonly events?: readonly string[];
  readonly metadata?: object | null;
  readonly description?: string | null;
  readonly filter?: object | null;
  /** Whether only an answer that holds the ping's challenge verifies the endpoint. */
  readonly require_echo?: boolean;
  /** Deliveries per second at most, 1 to 1000; null for no limit. */
  readonly rate_limit?: number | null;
}

export interface TestEvent {
  /** `endpoint.test` by default; the endpoint need not subscribe to it. */
  readonly type?: string;
  readonly data?: object;
}

export interface Endpoint {
  readonly id: string;
  readonly url: string;
  readonly events: readonly string[];
  readonly metadata: object | null;
  readonly description: string | null;
  readonly filter: object | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly authentication: Authentication | null;
  readonly require_echo: boolean;
  /** Deliveries per second at most; null for no limit. */
  readonly rate_limit: number | null;
  readonly state: "PENDING" | "ACTIVE" | "DISABLED";
  /** `failing`: no delivery succeeded for too long; `gone`: it answered 410 Gone. */
  readonly disabled_reason: "tenant" | "failing" | "gone" | null;
  readonly created_at: string;
  readonly updated_at: string;
  readonly verification: {
    readonly workflow_id: string;
    readonly attempts: number;
    readonly last_error: string | null;
    readonly next_attempt_at: string | null;
    readonly verified_at: string | null;
    /** `echo`: the answer contained the ping's challenge. */
    readonly verified_by: "status" | "echo" | null;
  };
}

export interface RegisteredEndpoint extends Endpoint {
  /** The signing secret; shown only here. */
  readonly secret: string;
}

export interface EndpointFilter extends PageOptions {
  readonly state?: Endpoint["state"];
  /** Endpoints with these metadata members, compared as text. */
  readonly metadata?: Readonly<Record<string, string>>;
}

export class Endpoints {
  readonly #transport: Transport;
  /** Signing secrets of endpoints. */
  readonly secrets: EndpointSecrets;

  constructor(transport: Transport) {
    this.#transport = transport;
    this.secrets = new EndpointSecrets(transport);
  }

  /** Registers an endpoint and sends it a signed ping. */
  async create(endpoint: NewEndpoint, options: IdempotentOptions = {}): Promise<RegisteredEndpoint> {
    return await this.#transport.call({
      method: "POST",
      path: PATH,
      body: endpoint,
      ...options,
      idempotencyKey: idempotencyKeyOf(options),
    });
  }

  /** All endpoints, newest first. */
  list(options: EndpointFilter = {}): List<Endpoint> {
    return new List(this.#transport, PATH, options);
  }

  async get(id: string, options: CallOptions = {}): Promise<Endpoint> {
    return await this.#transport.call({ method: "GET", path: `${PATH}/${segment(id)}`, ...options });
  }

  async update(id: string, change: EndpointChange, options: CallOptions = {}): Promise<Endpoint> {
    return await this.#transport.call({
      method: "PATCH",
      path: `${PATH}/${segment(id)}`,
      body: change,
      ...options,
    });
  }

  async delete(id: string, options: CallOptions = {}): Promise<void> {
    await this.#transport.call({ method: "DELETE", path: `${PATH}/${segment(id)}`, ...options });
  }

  /** Sends another ping to an endpoint that is still PENDING. */
  async verify(id: string, options: CallOptions = {}): Promise<Endpoint> {
    return await this.#transport.call({ method: "POST", path: `${PATH}/${segment(id)}/verify`, ...options });
  }

  /** Pings a DISABLED endpoint; it is ACTIVE once it has acknowledged the ping. */
  async enable(id: string, options: IdempotentOptions = {}): Promise<Endpoint> {
    return await this.#transport.call({
      method: "POST",
      path: `${PATH}/${segment(id)}/enable`,
      ...options,
      idempotencyKey: idempotencyKeyOf(options),
    });
  }

  /** Disables an endpoint: its events become dead letters, which can be replayed once it is enabled again. */
  async disable(id: string, options: IdempotentOptions = {}): Promise<Endpoint> {
    return await this.#transport.call({
      method: "POST",
      path: `${PATH}/${segment(id)}/disable`,
      ...options,
      idempotencyKey: idempotencyKeyOf(options),
    });
  }

  /** Sends an event to this ACTIVE endpoint only. Resolves with its delivery, before the first attempt. */
  async test(id: string, event: TestEvent = {}, options: IdempotentOptions = {}): Promise<Delivery> {
    return await this.#transport.call({
      method: "POST",
      path: `${PATH}/${segment(id)}/test`,
      body: event,
      ...options,
      idempotencyKey: idempotencyKeyOf(options),
    });
  }

  /**
   * Grades the receiver of an ACTIVE endpoint with good and bad deliveries, which takes up to two minutes; read the
   * result with {@link getGrade}.
   */
  async grade(id: string, options: IdempotentOptions = {}): Promise<Grade> {
    return await this.#transport.call({
      method: "POST",
      path: `${PATH}/${segment(id)}/grade`,
      ...options,
      idempotencyKey: idempotencyKeyOf(options),
    });
  }

  async getGrade(id: string, gradeId: string, options: CallOptions = {}): Promise<Grade> {
    return await this.#transport.call({
      method: "GET",
      path: `${PATH}/${segment(id)}/grades/${segment(gradeId)}`,
      ...options,
    });
  }

  /** Lists the stored grades of a receiver, newest first. */
  listGrades(id: string, options: PageOptions = {}): List<GradeSummary> {
    return new List(this.#transport, `${PATH}/${segment(id)}/grades`, options);
  }

  /** Counts the events that {@link replayMissing} would deliver. */
  async countMissing(id: string, which: MissedEvents, options: CallOptions = {}): Promise<number> {
    const { total } = await this.#transport.call<{ readonly total: number }>({
      method: "POST",
      path: `${PATH}/${segment(id)}/replay-missing`,
      body: { ...which, dry_run: true },
      repeatable: true,
      ...options,
    });
    return total;
  }

  /** Delivers missed events as a job: from before the endpoint was registered, or while it was not ACTIVE. */
  async replayMissing(id: string, which: MissedEvents, options: IdempotentOptions = {}): Promise<ReplayJob> {
    return await this.#transport.call({
      method: "POST",
      path: `${PATH}/${segment(id)}/replay-missing`,
      body: which,
      ...options,
      idempotencyKey: idempotencyKeyOf(options),
    });
  }
}
