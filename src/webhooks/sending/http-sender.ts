/**
 * Sends signed requests to receivers that may be slow, broken or hostile, and says what came of it.
 *
 * One wall clock runs from before DNS to complete response headers; the body after them is read for at most 2 s and
 * 64 KiB, and 4 KiB are kept. Redirects are not followed, nothing is decompressed, every address is checked where
 * it is connected to.
 *
 * A request is written once. The one case that is repeated is certain to be harmless: an idle connection that the
 * receiver closed before the first byte of the request was written. When it closes after that, nobody can tell
 * whether it has read the request: the attempt is `aborted` and its retry is the schedule's business, because a
 * receiver must see an attempt number once.
 */
import { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import {
  createSecureContext,
  rootCertificates,
  type SecureContext,
  type SecureContextOptions,
} from "node:tls";
import { type Dispatcher, errors } from "undici";
import type { Clock } from "../../domain/clock.ts";
import type { AttemptError } from "../../domain/delivery.ts";
import type { OutboundProxy } from "../../config/egress-settings.ts";
import type { AddressPolicy } from "./address-policy.ts";
import { ConnectFailure } from "./http-tls.ts";
import type { Connection, ConnectionStatistics, Connections } from "./http-connections.ts";
import { createConnections } from "./http-connections.ts";
import type { ExchangeEnd } from "./http-exchange.ts";
import { Exchange } from "./http-exchange.ts";
import type { ConnectDependencies } from "./http-connect.ts";
import type { HostResolver } from "./http-resolver.ts";
import { createHostResolver } from "./http-resolver.ts";
import { KEPT_BODY_BYTES, responseText, retryAfterMs } from "./http-response.ts";
import type { Target } from "./http-targets.ts";
import { createTargets } from "./http-targets.ts";

/** One POST. */
export interface SendRequest {
  readonly url: string;
  /** Everything but Host, Content-Length and Connection. */
  readonly headers: Readonly<Record<string, string>>;
  /** The exact bytes that were signed. */
  readonly body: Buffer;
  /** Writes the body in so many pieces with a pause before each: receivers are graded on how they read. */
  readonly drip?: { readonly pieces: number; readonly everyMs: number };
  /** Milliseconds from now to complete response headers: 10,000 for deliveries, 5,000 for pings. */
  readonly deadlineMs: number;
  /** Which statuses are a success; 2xx unless said otherwise. */
  readonly successStatus?: (status: number) => boolean;
  /** Bytes of the answer that are wanted; 4,096. */
  readonly keptBodyBytes?: number;
  /** Asked with the addresses of the host; false refuses the request. It is sent on a connection of its own then. */
  readonly admitAddresses?: NonNullable<Target["admitAddresses"]>;
  /** The certificate that the receiver is shown. */
  readonly identity?: ClientIdentity;
}

/** A client certificate with its key. Connections that have shown it carry nothing else. */
export interface ClientIdentity {
  /** Apart from every other. */
  readonly key: string;
  readonly secureContext: SecureContext;
}

/** What came of it. */
export interface SendResult {
  /** Unix milliseconds. */
  readonly startedAt: number;
  /** Until complete response headers, or until the failure. */
  readonly durationMs: number;
  readonly status: number | null;
  /** Null for success. */
  readonly error: AttemptError | null;
  /** What the receiver asks for with 429 or 503. */
  readonly retryAfterMs: number | null;
  /** At most 4 KiB, or what was wanted, of well-formed text without U+0000. */
  readonly responseBody: string | null;
}

/** Sends, and never throws for what a receiver does. */
export interface HttpSender {
  send(request: SendRequest): Promise<SendResult>;
  /**
   * Makes an identity out of PEM texts; receivers are trusted as always.
   *
   * @throws Error for texts that OpenSSL cannot use
   */
  createIdentity(certificate: string, privateKey: string): ClientIdentity;
  /** Ends the connections that have shown it: idle ones now, the others after their response. */
  forgetIdentity(identity: ClientIdentity): void;
  statistics(): ConnectionStatistics;
  /** Refuses new requests and resolves when those under way have ended, at the latest at their deadlines. */
  close(): Promise<void>;
}

/** What a sender is made of. */
export interface HttpSenderOptions {
  readonly policy: AddressPolicy;
  readonly clock: Clock;
  readonly resolver?: HostResolver;
  /** Whether an address and port are those of our own URLs; none are unless given. */
  readonly isOwnAddress?: ConnectDependencies["isOwnAddress"];
  /** Certificate authorities (PEM) that receivers' certificates are checked against instead of the public ones. */
  readonly certificateAuthorities?: readonly string[];
  /** Such as are trusted beside the public ones. */
  readonly extraCertificateAuthorities?: readonly string[];
  /** Everything leaves through it. */
  readonly proxy?: OutboundProxy | null;
  /** Idle connections kept in all, about 10 KiB each; 1,024. */
  readonly maxIdleConnections?: number;
  /** Idle connections kept per origin, no fewer than attempts run at once; 256. */
  readonly maxIdlePerOrigin?: number;
  /** Milliseconds for the response body after the headers; 2,000. */
  readonly bodyMs?: number;
}

const BODY_MS = 2_000;
const BODY_BYTES = 65_536;
const MAX_IDLE = 1_024;
const MAX_IDLE_PER_ORIGIN = 256;

/** The machine or the process has no more descriptors or memory for a socket. */
const OWN_LACK: ReadonlySet<unknown> = new Set(["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"]);

function isOwnLack(error: Error | null): error is ConnectFailure {
  return (
    error instanceof ConnectFailure && OWN_LACK.has((error.cause as { code?: unknown } | undefined)?.code)
  );
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
    // What is still `unsent` after the second connection broke is an aborted attempt like any other.
    return failed(startedAt, end.at, failure === null || failure === "unsent" ? "aborted" : failure);
  }
  const { status } = response;
  const succeeded = (request.successStatus ?? isSuccess)(status);
  return {
    startedAt,
    durationMs: Math.max(0, end.at - startedAt),
    status,
    error: succeeded ? null : "status",
    retryAfterMs: retryAfterMs(response.retryAfter, end.at),
    responseBody: responseText(response.body, response.truncated, request.keptBodyBytes),
  };
}

function trusted(options: HttpSenderOptions): SecureContextOptions {
  const { certificateAuthorities, extraCertificateAuthorities = [] } = options;
  // Without `ca`, Node shares one store of the public ones among all contexts.
  if (certificateAuthorities === undefined && extraCertificateAuthorities.length === 0) {
    return { minVersion: "TLSv1.2" };
  }
  const own = certificateAuthorities ?? rootCertificates;
  return { minVersion: "TLSv1.2", ca: [...own, ...extraCertificateAuthorities] };
}

/** The length is said beforehand, as it is for a body in one piece. */
function drip(
  { headers, body }: SendRequest,
  { pieces, everyMs }: NonNullable<SendRequest["drip"]>,
): { readonly headers: Record<string, string>; readonly body: Readable } {
  async function* pieceByPiece(): AsyncGenerator<Buffer> {
    const size = Math.max(1, Math.ceil(body.length / pieces));
    for (let start = 0; start < body.length; start += size) {
      await delay(everyMs);
      yield body.subarray(start, start + size);
    }
  }
  return {
    headers: { ...headers, "Content-Length": String(body.length) },
    body: Readable.from(pieceByPiece()),
  };
}

function openConnections(options: HttpSenderOptions): Connections {
  return createConnections(
    {
      policy: options.policy,
      resolve: options.resolver ?? createHostResolver(),
      ...(options.isOwnAddress === undefined ? undefined : { isOwnAddress: options.isOwnAddress }),
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

function createIdentities(options: HttpSenderOptions): HttpSender["createIdentity"] {
  let count = 0;
  return (certificate, privateKey) => {
    const secureContext = createSecureContext({ ...trusted(options), cert: certificate, key: privateKey });
    count += 1;
    return { key: `identity ${count}`, secureContext };
  };
}

/** Connections with an identity have a pool of their own. */
function targetFor(target: Target, identity: ClientIdentity | undefined): Target {
  return identity === undefined
    ? target
    : { ...target, key: `${target.key} ${identity.key}`, secureContext: identity.secureContext };
}

function dispatchOn(connection: Connection, request: Dispatcher.DispatchOptions, handler: Exchange): void {
  const dispatch = (): void => {
    connection.client.dispatch(request, handler);
  };
  if (connection.restMs > 0) {
    setTimeout(dispatch, connection.restMs);
  } else if (connection.reused) {
    // undici looks once more whether the receiver has hung up, by `setImmediate`; called from an I/O callback that
    // comes before Node polls its sockets again. From another immediate it comes after, and sees.
    setImmediate(dispatch);
  } else {
    dispatch();
  }
}

/** A sender with its own connections; one per process. */
export function createHttpSender(options: HttpSenderOptions): HttpSender {
  const { clock, bodyMs = BODY_MS } = options;
  const connections = openConnections(options);
  const findTarget = createTargets(options.policy);
  let underWay = 0;
  let closing: Promise<void> | null = null;
  let onIdle = (): void => {};

  function exchange(connection: Connection, target: Target, request: SendRequest): Promise<ExchangeEnd> {
    return new Promise((resolve) => {
      const { headers, body, deadlineMs, keptBodyBytes = KEPT_BODY_BYTES } = request;
      const handler = new Exchange(
        { bodyMs, bodyBytes: BODY_BYTES, deadlineMs, keptBodyBytes },
        clock,
        (end) => {
          connections.release(connection, end.reusable);
          resolve(end);
        },
      );
      const written = request.drip === undefined ? { headers, body } : drip(request, request.drip);
      dispatchOn(connection, { path: target.path, method: "POST", ...written }, handler);
    });
  }

  async function perform(request: SendRequest, target: Target, startedAt: number): Promise<SendResult> {
    const { admitAddresses } = request;
    const connection =
      admitAddresses === undefined
        ? connections.acquire(target.key, target)
        : connections.open(target.key, { ...target, admitAddresses });
    let end = await exchange(connection, target, request);
    if (end.failure === "unsent" && connection.reused) {
      const deadlineMs = Math.max(1, request.deadlineMs - (end.at - startedAt));
      end = await exchange(connections.open(target.key, target), target, { ...request, deadlineMs });
    }
    if (end.cause instanceof errors.InvalidArgumentError || isOwnLack(end.cause)) {
      // A header that cannot be sent, or a socket that we cannot open, is no outcome of the receiver's.
      throw end.cause;
    }
    return resultOf(request, startedAt, end);
  }

  return {
    async send(request) {
      const startedAt = clock.now();
      const target = findTarget(request.url);
      if (target === null || closing !== null) {
        return failed(startedAt, startedAt, target === null ? "refused" : "aborted");
      }
      underWay += 1;
      try {
        return await perform(request, targetFor(target, request.identity), startedAt);
      } finally {
        underWay -= 1;
        if (underWay === 0) {
          onIdle();
        }
      }
    },
    createIdentity: createIdentities(options),
    forgetIdentity: ({ secureContext }) => connections.forget(secureContext),
    statistics: () => connections.statistics(),
    close() {
      closing ??= new Promise((resolve) => {
        connections.close();
        onIdle = resolve;
        if (underWay === 0) {
          resolve();
        }
      });
      return closing;
    },
  };
}
