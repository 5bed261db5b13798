/** The receiver of `signet listen` on loopback: it verifies deliveries, and answers them or forwards them. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { asObject } from "#lib/client/json.ts";
import { parseWithRaw } from "#lib/client/raw-json.ts";
import type { Fetch } from "#lib/client/runtime.ts";
import { readBody, readStart } from "#lib/bounded-body.ts";
import { closeAtOnce, endUnused, headerText, listenOn } from "#runtime/http-server.ts";
import { VerificationError } from "#lib/receiver/errors.ts";
import { verify } from "#lib/receiver/verify.ts";
import { messageOf } from "#runtime/thrown.ts";

const HOST = "127.0.0.1";
/** In bytes. An event has at most 256 KiB; its envelope adds little. */
const BODY_MAX = 1_048_576;
const FORWARDED_ANSWER_MAX = 65_536;
/** Signet waits 10 s for the answer to a delivery, and 5 s for the answer to a ping. */
const FORWARD_MS = 9_000;
const SECRET_MS = 4_000;
const IDS_KEPT = 10_000;
/** Headers that are not forwarded: they concern the connection, not the message (RFC 9110 section 7.6.1). */
const HOP_BY_HOP = new Set([
  "connection",
  "host",
  "content-length",
  "keep-alive",
  "transfer-encoding",
  "upgrade",
]);

/** One request and its result. */
export interface ReceivedDelivery {
  readonly received_at: string;
  readonly event_id: string | null;
  readonly event_type: string;
  readonly delivery_id: string;
  readonly attempt: number;
  readonly verified: boolean;
  /** Scheme of the signature that matched; null if none did. */
  readonly scheme: string | null;
  /** Error code of src/lib/receiver if the delivery is not verified, otherwise null. */
  readonly problem: string | null;
  /** True if an event with this id was received before. */
  readonly repeated: boolean;
  /** HTTP status of the answer. */
  readonly status: number;
  /** The envelope; null if the delivery is not verified. */
  readonly payload: unknown;
}

export interface LocalReceiverOptions {
  /** Port on loopback; 0 for any free port. */
  readonly port: number;
  readonly now: () => number;
  readonly fetch: Fetch;
  readonly forwardTo: string | undefined;
  readonly onDelivery: (delivery: ReceivedDelivery) => void;
  /** Called if the forward target did not answer. */
  readonly onForwardFailure: (message: string) => void;
}

interface Answer {
  readonly status: number;
  readonly body?: string | Buffer;
}

/** Returns the ping's challenge in the answer, for endpoints that require it. */
function challengeAnswer(payload: unknown): Answer {
  const { challenge } = asObject(asObject(payload)["data"]);
  return { status: 200, body: JSON.stringify({ challenge }) };
}

async function forward(
  request: IncomingMessage,
  body: Buffer,
  { fetch, forwardTo = "" }: LocalReceiverOptions,
): Promise<Answer> {
  const headers = Object.entries(request.headers).flatMap(([name, value]): [string, string][] =>
    typeof value === "string" && !HOP_BY_HOP.has(name) ? [[name, value]] : [],
  );
  const response = await fetch(forwardTo, {
    method: "POST",
    headers,
    body: new Uint8Array(body),
    redirect: "manual",
    signal: AbortSignal.timeout(FORWARD_MS),
  });
  return { status: response.status, body: await readStart(response.body, FORWARDED_ANSWER_MAX) };
}

/** The newest event ids, to recognize repeated deliveries. */
class SeenIds {
  readonly #ids = new Set<string>();

  add(id: string | null): boolean {
    if (id === null || this.#ids.has(id)) {
      return id !== null;
    }
    this.#ids.add(id);
    const [oldest] = this.#ids;
    if (this.#ids.size > IDS_KEPT && oldest !== undefined) {
      this.#ids.delete(oldest);
    }
    return false;
  }
}

export class LocalReceiver {
  readonly #options: LocalReceiverOptions;
  readonly #seen = new SeenIds();
  readonly #secret = Promise.withResolvers<string>();
  readonly #server = createServer((request, response) => {
    this.#receive(request, response).catch(() => response.destroy());
  });
  #port = 0;

  private constructor(options: LocalReceiverOptions) {
    this.#options = options;
    endUnused(this.#server);
  }

  /** Starts the receiver. */
  static async start(options: LocalReceiverOptions): Promise<LocalReceiver> {
    const receiver = new LocalReceiver(options);
    receiver.#port = (await listenOn(receiver.#server, { host: HOST, port: options.port })).port;
    return receiver;
  }

  get url(): string {
    return `http://${HOST}:${this.#port}/`;
  }

  /** Sets the secret to verify with; requests wait for it. */
  setSecret(secret: string): void {
    this.#secret.resolve(secret);
  }

  async close(): Promise<void> {
    await closeAtOnce(this.#server);
  }

  /** The first ping may arrive before the answer to the registration, which contains the secret. */
  async #secretInTime(): Promise<string> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => reject(new Error("no secret yet")), SECRET_MS);
    });
    try {
      return await Promise.race([this.#secret.promise, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  async #answer(request: IncomingMessage, body: Buffer, payload: unknown): Promise<Answer> {
    if (headerText(request, "x-service-event-type") === "ping") {
      return challengeAnswer(payload);
    }
    if (this.#options.forwardTo === undefined) {
      return { status: 200 };
    }
    try {
      return await forward(request, body, this.#options);
    } catch (error) {
      const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error;
      this.#options.onForwardFailure(messageOf(reason));
      return { status: 502 };
    }
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method !== "POST") {
      response.writeHead(405, { allow: "POST" }).end();
      return;
    }
    const { now, onDelivery } = this.#options;
    const rawBody = await readBody(request, BODY_MAX);
    const secrets = [await this.#secretInTime()];
    const common = {
      received_at: new Date(now()).toISOString(),
      event_type: headerText(request, "x-service-event-type"),
      delivery_id: headerText(request, "x-service-delivery-id"),
      attempt: Number(headerText(request, "x-service-attempt")),
    };
    try {
      const { id, scheme } = verify({ rawBody, headers: request.headers, secrets, now: now() });
      const payload = parseWithRaw(rawBody.toString("utf8"));
      const { status, body } = await this.#answer(request, rawBody, payload);
      response.writeHead(status).end(body);
      const repeated = this.#seen.add(id);
      onDelivery({
        ...common,
        event_id: id,
        verified: true,
        scheme,
        problem: null,
        repeated,
        status,
        payload,
      });
    } catch (error) {
      if (!(error instanceof VerificationError)) {
        throw error;
      }
      const status = error.code === "HEADERS_MALFORMED" ? 400 : 401;
      response.writeHead(status).end();
      const refused = { verified: false, scheme: null, problem: error.code, repeated: false };
      onDelivery({ ...common, ...refused, event_id: null, status, payload: null });
    }
  }
}
