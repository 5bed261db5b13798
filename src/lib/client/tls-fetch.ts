/**
 * `fetch` with a client certificate, over node:https: the global one cannot present any. Connections are kept and used
 * again; a renewed certificate gets connections of its own.
 */
import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import { Readable } from "node:stream";
import { createSecureContext, type SecureContextOptions } from "node:tls";
import type { Clock, Fetch } from "./runtime.ts";

const MAX_CONNECTIONS = 64;
const RELOAD_MS = 30_000;
/** Statuses whose answers have no body (Fetch standard). */
const WITHOUT_BODY = new Set([204, 205, 304]);

/** PEM texts. */
export interface TlsMaterial {
  /** The client certificate, with the intermediate ones behind it; absent, with its key, where none is asked for. */
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  /** Authorities that the server's certificate may come from; the system's when absent. */
  readonly ca?: string | Buffer | readonly (string | Buffer)[];
  readonly passphrase?: string;
}

/** The certificate, or where to read it from: asked again every 30 seconds, so that a renewed one is taken up. */
export type TlsSource = TlsMaterial | (() => TlsMaterial | Promise<TlsMaterial>);

/** @throws Error when the certificate is none, or the key is not its own */
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
  return new Agent({ ...options, secureContext, keepAlive: true, maxSockets: MAX_CONNECTIONS });
}

interface Present {
  readonly agent: Agent;
  readonly fingerprint: string;
}

/** Keeps the agent of the present certificate. */
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

  /** Requests under way keep the old agent; its idle connections end by themselves. */
  async #read(before: Promise<Present> | undefined): Promise<Present> {
    const present = await before?.catch(() => undefined);
    try {
      const material = typeof this.#source === "function" ? await this.#source() : this.#source;
      const fingerprint = JSON.stringify([material.cert, material.key, material.ca].map(String));
      return present?.fingerprint === fingerprint ? present : { agent: createAgent(material), fingerprint };
    } catch (error) {
      if (present !== undefined) {
        // Files that are being replaced do not fit each other for a moment.
        return present;
      }
      this.#present = undefined;
      throw error;
    }
  }
}

/** The body as it comes: an answer that breaks off is an error for who reads it. */
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

/** @throws TypeError for what is neither a text nor a form */
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
 * Makes a `fetch` that presents the certificate. It takes https addresses, and bodies that are texts or
 * forms; it follows nothing. Other OAuth clients can use it too (`customFetch`).
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
