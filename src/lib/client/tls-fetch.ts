/**
 * `fetch` with a client certificate, over node:https: the global one cannot present any. Connections are
 * reused; a renewed certificate gets new connections.
 */
import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import { Readable } from "node:stream";
import { createSecureContext, type SecureContextOptions } from "node:tls";
import { checkServerIdentity } from "../server-identity.ts";
import type { Clock, Fetch } from "./runtime.ts";

const MAX_CONNECTIONS = 64;
const RELOAD_MS = 30_000;
/** Statuses whose answers have no body (Fetch standard). */
const WITHOUT_BODY = new Set([204, 205, 304]);

/** PEM texts. */
export interface TlsMaterial {
  /** The client certificate, followed by intermediates; absent, with its key, if none is required. */
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  /** Root certificates for the server's certificate; the system's by default. */
  readonly ca?: string | Buffer | readonly (string | Buffer)[];
  readonly passphrase?: string;
}

/** The certificate, or a function that returns it, called every 30 seconds to pick up a renewed one. */
export type TlsSource = TlsMaterial | (() => TlsMaterial | Promise<TlsMaterial>);

/** @throws Error if the certificate is invalid, or the key does not match */
function createAgent({ cert, key, ca, passphrase }: TlsMaterial): Agent {
  if ((cert === undefined) !== (key === undefined)) {
    throw new TypeError("a client certificate and its key belong together");
  }
  const options: SecureContextOptions = {
    ...(cert === undefined ? {} : { cert, key }),
    ...(ca === undefined ? {} : { ca: Array.isArray(ca) ? [...(ca as readonly string[])] : (ca as string) }),
    ...(passphrase === undefined ? {} : { passphrase }),
    minVersion: "TLSv1.2",
  };
  const secureContext = createSecureContext(options);
  return new Agent({
    ...options,
    secureContext,
    checkServerIdentity,
    keepAlive: true,
    maxSockets: MAX_CONNECTIONS,
  });
}

interface Present {
  readonly agent: Agent;
  readonly fingerprint: string;
}

/** Holds the agent of the current certificate. */
class Agents {
  readonly #source: TlsSource;
  readonly #clock: Clock;
  #present: Promise<Present> | undefined;
  #readAt = 0;

  constructor(source: TlsSource, clock: Clock) {
    this.#source = source;
    this.#clock = clock;
  }

  async agent(): Promise<Agent> {
    const now = this.#clock.now();
    if (this.#present === undefined || now - this.#readAt >= RELOAD_MS) {
      this.#readAt = now;
      this.#present = this.#read(this.#present);
    }
    return (await this.#present).agent;
  }

  /** Requests in progress keep the old agent; its idle connections time out. */
  async #read(before: Promise<Present> | undefined): Promise<Present> {
    const present = await before?.catch(() => undefined);
    try {
      const material = typeof this.#source === "function" ? await this.#source() : this.#source;
      const fingerprint = JSON.stringify([material.cert, material.key, material.ca].map(String));
      return present?.fingerprint === fingerprint ? present : { agent: createAgent(material), fingerprint };
    } catch (error) {
      if (present !== undefined) {
        // Files may not match for a moment while they are replaced.
        return present;
      }
      this.#present = undefined;
      throw error;
    }
  }
}

/** Streams the body: an interrupted answer is an error for the reader. */
function bodyOf(incoming: IncomingMessage, status: number): ReadableStream | null {
  if (WITHOUT_BODY.has(status)) {
    incoming.resume();
    return null;
  }
  return Readable.toWeb(incoming) as ReadableStream;
}

function headersOf({ rawHeaders }: IncomingMessage): Headers {
  const headers = new Headers();
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    headers.append(rawHeaders[index] ?? "", rawHeaders[index + 1] ?? "");
  }
  return headers;
}

/** @throws TypeError unless the body is a text or a form */
function readRequestBody(body: RequestInit["body"]): Buffer | undefined {
  if (body === undefined || body === null) {
    return undefined;
  }
  if (typeof body === "string" || body instanceof URLSearchParams) {
    return Buffer.from(body.toString());
  }
  throw new TypeError("this fetch sends texts and forms only");
}

async function exchange(agent: Agent, url: string, init: RequestInit): Promise<IncomingMessage> {
  const body = readRequestBody(init.body);
  return await new Promise((resolve, reject) => {
    const outgoing = request(
      url,
      {
        agent,
        method: init.method ?? "GET",
        headers: {
          ...Object.fromEntries(new Headers(init.headers)),
          ...(body === undefined ? {} : { "content-length": body.length }),
        },
        ...(init.signal == null ? {} : { signal: init.signal }),
      },
      resolve,
    );
    outgoing.once("error", reject);
    outgoing.end(body);
  });
}

/**
 * Creates a `fetch` that presents the certificate. It accepts https addresses, and bodies that are texts or
 * forms; it follows no redirects. Other OAuth clients can use it too (`customFetch`).
 */
export function createTlsFetch(source: TlsSource, clock: Clock = Date): Fetch {
  const agents = new Agents(source, clock);
  return async (url, init) => {
    if (new URL(url).protocol !== "https:") {
      throw new TypeError("a client certificate needs an https address");
    }
    const incoming = await exchange(await agents.agent(), url, init);
    const status = incoming.statusCode ?? 0;
    return new Response(bodyOf(incoming, status), {
      status,
      headers: headersOf(incoming),
    });
  };
}
