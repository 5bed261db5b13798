/**
 * Sends signed requests to receivers that may be slow, broken or hostile, and returns the result.
 *
 * One deadline runs from before DNS to complete response headers. The body is then read for at most 2 s and 64 KiB,
 * and 4 KiB are kept. Redirects are not followed, nothing is decompressed, and every address is checked when it is
 * connected to.
 *
 * A request is written once. It is repeated only if that is certainly harmless: the receiver closed an idle
 * connection before the first byte was written. If it closes later, nobody can tell whether it read the request. Then
 * the attempt is `aborted`, and the schedule retries, because a receiver must see each attempt number once.
 */
import { Readable } from "node:stream";
import {
  createSecureContext,
  rootCertificates,
  type SecureContext,
  type SecureContextOptions,
} from "node:tls";
import { type Dispatcher, errors } from "undici";
import type { Clock, Timers } from "#domain/clock.ts";
import type { AttemptError } from "#domain/delivery.ts";
import type { OutboundProxy } from "#config/egress-settings.ts";
import { acceptInterimResponses } from "#runtime/interim-responses.ts";
import type { AddressPolicy } from "./address-policy.ts";
import { ConnectFailure } from "./http-tls.ts";
import { type Connection, Connections, type ConnectionStatistics } from "./http-connections.ts";
import type { ExchangeEnd } from "./http-exchange.ts";
import { Exchange } from "./http-exchange.ts";
import type { ConnectServices } from "./http-connect.ts";
import type { HostResolver } from "./http-resolver.ts";
import { createHostResolver } from "./http-resolver.ts";
import { KEPT_BODY_BYTES, requestedWaitMs, responseText } from "./http-response.ts";
import type { Target } from "./http-targets.ts";
import { createTargets } from "./http-targets.ts";

/** A POST request. */
export interface SendRequest {
  readonly url: string;
  /** All headers except Host, Content-Length and Connection. */
  readonly headers: Readonly<Record<string, string>>;
  /** The exact bytes that were signed. */
  readonly body: Buffer;
  /** Writes the body in pieces with a pause before each, to grade how receivers read. */
  readonly drip?: { readonly pieces: number; readonly everyMs: number };
  /** From now to complete response headers, in milliseconds: 10,000 for deliveries, 5,000 for pings. */
  readonly deadlineMs: number;
  /** Returns whether a status is a success; by default 2xx. */
  readonly successStatus?: (status: number) => boolean;
  /** Bytes of the response body to keep; by default 4,096. */
  readonly keptBodyBytes?: number;
  /** Called with the addresses of the host; false rejects the request. Such a request gets its own connection. */
  readonly admitAddresses?: NonNullable<Target["admitAddresses"]>;
  /** Client certificate to present to the receiver. */
  readonly identity?: ClientIdentity;
}

/** A client certificate with its key. Connections that presented it carry only its requests. */
export interface ClientIdentity {
  /** Unique key of the identity. */
  readonly key: string;
  readonly secureContext: SecureContext;
}

/** Result of a request. */
export interface SendResult {
  /** Unix milliseconds. */
  readonly startedAt: number;
  /** Time until complete response headers or the failure, in milliseconds. */
  readonly durationMs: number;
  readonly status: number | null;
  /** Null for success. */
  readonly error: AttemptError | null;
  /** Wait that the receiver requests with 429 or 503, in milliseconds. */
  readonly retryAfterMs: number | null;
  /** At most 4 KiB, or the requested limit, of well-formed text without U+0000. */
  readonly responseBody: string | null;
}

/** Configuration of a sender. */
export interface HttpSenderOptions {
  readonly policy: Pick<AddressPolicy, "parseTarget" | "allowsConnection">;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly resolver?: HostResolver;
  /** Whether an address and port belong to our own URLs; by default none do. */
  readonly isOwnAddress?: ConnectServices["isOwnAddress"];
  /** Certificate authorities (PEM) trusted in addition to the public ones. */
  readonly extraCertificateAuthorities?: readonly string[];
  /** Proxy for all requests. */
  readonly proxy?: OutboundProxy | null;
  /** Maximum number of idle connections, about 60 KiB each over TLS; by default 1,024. */
  readonly maxIdleConnections?: number;
  /** Maximum number of idle connections per origin, at least the number of concurrent attempts; by default 256. */
  readonly maxIdlePerOrigin?: number;
  /** Time for the response body after the headers, in milliseconds; by default 2,000. */
  readonly bodyMs?: number;
}

const BODY_MS = 2_000;
const BODY_BYTES = 65_536;
const MAX_IDLE = 1_024;
const MAX_IDLE_PER_ORIGIN = 256;

/** The machine or process has no more file descriptors or memory for a socket. */
const OWN_LACK: ReadonlySet<unknown> = new Set(["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"]);

/** Whether a request could not be sent because this process, or its machine, can open no socket. */
export function isOwnLack(error: unknown): error is ConnectFailure {
  return (
    error instanceof ConnectFailure && OWN_LACK.has((error.cause as { code?: unknown } | undefined)?.code)
  );
}

/** Throws an unsendable header, or a socket that we cannot open. They are not the receiver's outcome. */
function throwOwnFault({ cause }: ExchangeEnd, connections: Connections): void {
  const lacking = isOwnLack(cause);
  if (lacking) {
    connections.shed();
  }
  if (cause instanceof errors.InvalidArgumentError || lacking) {
    throw cause;
  }
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

function failed(startedAt: number, endedAt: number, error: AttemptError): SendResult {
  const durationMs = Math.max(0, endedAt - startedAt);
  return { startedAt, durationMs, status: null, error, retryAfterMs: null, responseBody: null };
}

function resultOf(request: SendRequest, startedAt: number, end: ExchangeEnd): SendResult {
  const { response, failure } = end;
  if (response === null) {
    // If the second connection breaks too, the attempt is aborted like any other.
    return failed(startedAt, end.at, failure === null || failure === "unsent" ? "aborted" : failure);
  }
  const { status } = response;
  const succeeded = (request.successStatus ?? isSuccess)(status);
  return {
    startedAt,
    durationMs: Math.max(0, end.at - startedAt),
    status,
    error: succeeded ? null : "status",
    retryAfterMs: requestedWaitMs(response.retryAfter, end.at),
    responseBody: responseText(response.body, response.truncated, request.keptBodyBytes),
  };
}

function trusted(options: HttpSenderOptions): SecureContextOptions {
  const { extraCertificateAuthorities: extra = [] } = options;
  // Without `ca`, Node shares one store of the public authorities among all contexts.
  if (extra.length === 0) {
    return { minVersion: "TLSv1.2" };
  }
  return { minVersion: "TLSv1.2", ca: [...rootCertificates, ...extra] };
}

/** Announces the length first, as for a body in one piece. */
function drip(
  { headers, body }: SendRequest,
  { pieces, everyMs }: NonNullable<SendRequest["drip"]>,
  timers: Timers,
): { readonly headers: Record<string, string>; readonly body: Readable } {
  async function* pieceByPiece(): AsyncGenerator<Buffer> {
    const size = Math.max(1, Math.ceil(body.length / pieces));
    for (let start = 0; start < body.length; start += size) {
      await timers.sleep(everyMs);
      yield body.subarray(start, start + size);
    }
  }
  return {
    headers: { ...headers, "Content-Length": String(body.length) },
    body: Readable.from(pieceByPiece()),
  };
}

function openConnections(options: HttpSenderOptions): Connections {
  return new Connections(
    {
      policy: options.policy,
      resolve: options.resolver ?? createHostResolver({ timers: options.timers }),
      ...(options.isOwnAddress === undefined ? undefined : { isOwnAddress: options.isOwnAddress }),
      timers: options.timers,
      secureContext: createSecureContext(trusted(options)),
      proxy: options.proxy ?? null,
    },
    {
      maxIdle: options.maxIdleConnections ?? MAX_IDLE,
      maxIdlePerOrigin: options.maxIdlePerOrigin ?? MAX_IDLE_PER_ORIGIN,
    },
    options.clock,
  );
}

/** Gives connections with an identity a separate pool. */
function targetFor(target: Target, identity: ClientIdentity | undefined): Target {
  return identity === undefined
    ? target
    : { ...target, key: `${target.key} ${identity.key}`, secureContext: identity.secureContext };
}

function dispatchOn(
  connection: Connection,
  request: Dispatcher.DispatchOptions,
  handler: Exchange,
  timers: Timers,
): void {
  const dispatch = (): void => {
    connection.client.dispatch(request, handler);
  };
  if (connection.restMs > 0) {
    timers.after(connection.restMs, dispatch);
  } else if (connection.reused) {
    // undici checks with `setImmediate` whether the receiver has closed the connection. From an I/O callback, that
    // runs before Node polls its sockets. From another immediate, it runs after, and notices.
    timers.soon(dispatch);
  } else {
    dispatch();
  }
}

/** Sends requests over its own connections; one per process. Never throws because of a receiver's behaviour. */
export class HttpSender {
  readonly #options: HttpSenderOptions;
  readonly #connections: Connections;
  readonly #findTarget: (url: string) => Target | null;
  #identities = 0;
  #underWay = 0;
  #closing: Promise<void> | null = null;
  #onIdle = (): void => {};

  constructor(options: HttpSenderOptions) {
    acceptInterimResponses();
    this.#options = options;
    this.#connections = openConnections(options);
    this.#findTarget = createTargets(options.policy);
  }

  async send(request: SendRequest): Promise<SendResult> {
    const startedAt = this.#options.clock.now();
    const target = this.#findTarget(request.url);
    if (target === null || this.#closing !== null) {
      return failed(startedAt, startedAt, target === null ? "refused" : "aborted");
    }
    this.#underWay += 1;
    try {
      return await this.#perform(request, targetFor(target, request.identity), startedAt);
    } finally {
      this.#underWay -= 1;
      if (this.#underWay === 0) {
        this.#onIdle();
      }
    }
  }

  /**
   * Creates an identity from PEM texts. The trust in receivers does not change.
   *
   * @throws Error if OpenSSL cannot use them
   */
  createIdentity(cert: string, key: string): ClientIdentity {
    const secureContext = createSecureContext({ ...trusted(this.#options), cert, key });
    this.#identities += 1;
    return { key: `identity ${this.#identities}`, secureContext };
  }

  /** Closes the connections that presented the identity: idle ones now, others after their response. */
  forgetIdentity({ secureContext }: ClientIdentity): void {
    this.#connections.forget(secureContext);
  }

  statistics(): ConnectionStatistics {
    return this.#connections.statistics();
  }

  /** Rejects new requests. Resolves when those in progress have ended, at the latest at their deadlines. */
  async close(): Promise<void> {
    this.#closing ??= new Promise((resolve) => {
      this.#connections.close();
      this.#onIdle = resolve;
      if (this.#underWay === 0) {
        resolve();
      }
    });
    await this.#closing;
  }

  async #exchange(connection: Connection, target: Target, request: SendRequest): Promise<ExchangeEnd> {
    const { clock, timers, bodyMs = BODY_MS } = this.#options;
    return await new Promise((resolve) => {
      const { headers, body, deadlineMs, keptBodyBytes = KEPT_BODY_BYTES } = request;
      const handler = new Exchange(
        { bodyMs, bodyBytes: BODY_BYTES, deadlineMs, keptBodyBytes },
        clock,
        timers,
        (end) => {
          this.#connections.release(connection, end.reusable);
          resolve(end);
        },
      );
      const written = request.drip === undefined ? { headers, body } : drip(request, request.drip, timers);
      dispatchOn(connection, { path: target.path, method: "POST", ...written }, handler, timers);
    });
  }

  async #perform(request: SendRequest, target: Target, startedAt: number): Promise<SendResult> {
    const { admitAddresses } = request;
    const connections = this.#connections;
    const connection =
      admitAddresses === undefined
        ? connections.acquire(target.key, target)
        : connections.open(target.key, { ...target, admitAddresses });
    let end = await this.#exchange(connection, target, request);
    if (end.failure === "unsent" && connection.reused) {
      const deadlineMs = Math.max(1, request.deadlineMs - (end.at - startedAt));
      const other = connections.open(target.key, target);
      end = await this.#exchange(other, target, { ...request, deadlineMs });
    }
    throwOwnFault(end, connections);
    return resultOf(request, startedAt, end);
  }
}
