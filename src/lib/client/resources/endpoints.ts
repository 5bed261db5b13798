/** Webhook endpoints. */
import type {
  Delivery,
  Endpoint,
  EndpointChange,
  EndpointQuery,
  Grade,
  GradeSummary,
  MissedEvents,
  NewEndpoint,
  RegisteredEndpoint,
  ReplayCount,
  ReplayJob,
  TestEvent,
} from "../api-types.ts";
import { EndpointSecrets } from "./endpoint-secrets.ts";
import { idempotencyKeyOf, type IdempotentOptions } from "../idempotency.ts";
import { List, type PageOptions } from "../paging.ts";
import { type CallOptions, segment, type Transport } from "../transport.ts";

const PATH = "/v1/webhooks/endpoints";

export interface EndpointFilter extends EndpointQuery, PageOptions {}

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
  async countMissing(id: string, which: MissedEvents, options: CallOptions = {}): Promise<ReplayCount> {
    return await this.#transport.call({
      method: "POST",
      path: `${PATH}/${segment(id)}/replay-missing`,
      body: { ...which, dry_run: true },
      repeatable: true,
      ...options,
    });
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
