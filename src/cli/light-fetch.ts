/**
 * `fetch` over node:http and node:https, for the API's answers. Loading the global one takes a command a third of its
 * CPU. Requests with other than texts are left to the global one.
 */
import { Agent, type IncomingMessage, request as httpRequest } from "node:http";
import { Agent as TlsAgent, request as httpsRequest } from "node:https";
import { Readable } from "node:stream";
import { isThisMachine } from "#config/setting.ts";

type Init = NonNullable<Parameters<typeof fetch>[1]>;

interface TextInit extends Init {
  readonly headers?: Record<string, string>;
  readonly body?: string | URLSearchParams;
}

function isText(init: Init): init is TextInit {
  const { headers = {}, body } = init;
  const plain = Object.getPrototypeOf(headers) === Object.prototype;
  return plain && (body === undefined || typeof body === "string" || body instanceof URLSearchParams);
}

/** As Node's own agents, which send even calls to this machine through the environment's proxy (NODE_USE_ENV_PROXY). */
const KEPT = { keepAlive: true, timeout: 5_000 } as const;
const DIRECT = { "http:": new Agent(KEPT), "https:": new TlsAgent(KEPT) } as const;

function agentFor(url: string): Agent | undefined {
  const { hostname, protocol } = new URL(url);
  return isThisMachine(hostname) ? DIRECT[protocol as keyof typeof DIRECT] : undefined;
}

async function send(
  url: string,
  { method = "GET", headers = {}, body, signal }: TextInit,
): Promise<IncomingMessage> {
  const content = body === undefined ? undefined : Buffer.from(body.toString());
  const form = body instanceof URLSearchParams ? { "content-type": "application/x-www-form-urlencoded" } : {};
  const request = url.startsWith("https:") ? httpsRequest : httpRequest;
  const agent = agentFor(url);
  const options = {
    method,
    ...(agent === undefined ? {} : { agent }),
    headers: {
      ...form,
      ...headers,
      ...(content === undefined ? {} : { "content-length": content.length }),
    },
    ...(signal == null ? {} : { signal }),
  };
  return await new Promise((resolve, reject) => {
    request(url, options, resolve).once("error", reject).end(content);
  });
}

/** Returns the used members of a `Response`. The global class loads as much as the global `fetch`. */
function responseOf(incoming: IncomingMessage): Response {
  const status = incoming.statusCode ?? 0;
  return {
    status,
    ok: status >= 200 && status < 300,
    headers: {
      has: (name: string) => name.toLowerCase() in incoming.headers,
      get: (name: string) => {
        const value = incoming.headers[name.toLowerCase()];
        return value === undefined ? null : String(value);
      },
    },
    body: {
      [Symbol.asyncIterator]: () => incoming[Symbol.asyncIterator](),
      getReader: () => Readable.toWeb(incoming).getReader(),
    },
  } as unknown as Response;
}

/** Sends a request without following redirects. */
export const lightFetch: typeof fetch = async (input, init = {}) =>
  typeof input === "string" && isText(init) ? responseOf(await send(input, init)) : await fetch(input, init);
