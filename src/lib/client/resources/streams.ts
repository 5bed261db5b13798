/** Streams of security events (OpenID Shared Signals Framework 1.0). */
import type {
  NewStream,
  PollAnswer,
  PollRequest,
  Stream,
  StreamChange,
  StreamStatus,
  StreamStatusChange,
  SubjectIdentifier,
} from "../api-types.ts";
import { idempotencyKeyOf, type IdempotentOptions } from "../idempotency.ts";
import { type CallOptions, segment, type Transport } from "../transport.ts";

const PATH = "/v1/ssf/streams";
const STATUS_PATH = "/v1/ssf/status";

export class Streams {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Creates a stream: a push stream with `delivery`, otherwise one to {@link poll}. */
  async create(stream: NewStream = {}, options: IdempotentOptions = {}): Promise<Stream> {
    return await this.#post(PATH, stream, options);
  }

  /** Lists all streams of the tenant, oldest first. There are at most 10. */
  async list(options: CallOptions = {}): Promise<readonly Stream[]> {
    return await this.#transport.call({ method: "GET", path: PATH, ...options });
  }

  async get(id: string, options: CallOptions = {}): Promise<Stream> {
    return await this.#transport.call({ method: "GET", path: PATH, query: { stream_id: id }, ...options });
  }

  /** Changes a stream; absent members stay. The delivery method cannot change. */
  async update(
    id: string,
    change: Omit<StreamChange, "stream_id">,
    options: CallOptions = {},
  ): Promise<Stream> {
    const body = { ...change, stream_id: id };
    return await this.#transport.call({ method: "PATCH", path: PATH, body, ...options });
  }

  /** Deletes a stream with its waiting tokens. */
  async delete(id: string, options: CallOptions = {}): Promise<void> {
    await this.#transport.call({ method: "DELETE", path: PATH, query: { stream_id: id }, ...options });
  }

  async status(id: string, options: CallOptions = {}): Promise<StreamStatus> {
    const query = { stream_id: id };
    return await this.#transport.call({ method: "GET", path: STATUS_PATH, query, ...options });
  }

  /** Enables, pauses or disables a stream. Enabling sends what a paused stream held. */
  async setStatus(
    id: string,
    status: Omit<StreamStatusChange, "stream_id">,
    options: IdempotentOptions = {},
  ): Promise<StreamStatus> {
    return await this.#post(STATUS_PATH, { ...status, stream_id: id }, options);
  }

  /** Removes a subject: its events are no longer sent. A principal includes its credentials. */
  async removeSubject(
    id: string,
    subject: SubjectIdentifier,
    options: IdempotentOptions = {},
  ): Promise<void> {
    await this.#post("/v1/ssf/subjects/remove", { stream_id: id, subject }, options);
  }

  /** Adds a removed subject again. */
  async addSubject(id: string, subject: SubjectIdentifier, options: IdempotentOptions = {}): Promise<void> {
    await this.#post("/v1/ssf/subjects/add", { stream_id: id, subject }, options);
  }

  /** Sends a verification event, which contains `state`. Once in 30 seconds. */
  async verify(
    id: string,
    { state, ...options }: IdempotentOptions & { readonly state?: string } = {},
  ): Promise<void> {
    const body = { stream_id: id, ...(state === undefined ? {} : { state }) };
    await this.#post("/v1/ssf/verify", body, options);
  }

  /**
   * Acknowledges tokens, then returns the oldest of the others. Without any, it waits for up to 20 seconds: a client with
   * a shorter `timeoutMs` needs `returnImmediately`.
   */
  async poll(id: string, request: PollRequest = {}, options: CallOptions = {}): Promise<PollAnswer> {
    const path = `/v1/ssf/poll/${segment(id)}`;
    return await this.#transport.call({ method: "POST", path, body: request, repeatable: true, ...options });
  }

  async #post<T>(path: string, body: object, options: IdempotentOptions): Promise<T> {
    const idempotencyKey = idempotencyKeyOf(options);
    return await this.#transport.call<T>({ method: "POST", path, body, ...options, idempotencyKey });
  }
}
