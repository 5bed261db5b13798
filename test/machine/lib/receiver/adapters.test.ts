/**
 * Deliveries, pings and security events arrive through every framework and platform that docs/verify-webhooks.md names, and
 * none that was changed. Each adapter is the real package.
 */
import { createServer, type RequestListener, type Server } from "node:http";
import { connect, createServer as createHttp2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import { HttpRequest, HttpResponse } from "@azure/functions";
import { configure as serverlessExpress } from "@codegenie/serverless-express";
import { http as registerFunction } from "@google-cloud/functions-framework";
import { getTestServer } from "@google-cloud/functions-framework/testing";
import express, { type Express, type RequestHandler } from "express";
import { fastify, type FastifyInstance } from "fastify";
import { Hono } from "hono";
import { handle as handleLambda } from "hono/aws-lambda";
import serverlessHttp from "serverless-http";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  type ReceiverOptions,
  ssfHandler,
  ssfListener,
  ssfPlugin,
  SsfReceiver,
  webhookHandler,
  webhookListener,
  webhookPlugin,
} from "#lib/receiver/index.ts";
import { delivery, NOW_MS, SECRET } from "#test/support/library-delivery.ts";
import { ISSUER, type SecurityEvents, securityEvents, STREAM } from "#test/support/security-events.ts";
import {
  type Answered,
  answerOf,
  azureRequest,
  balancerEvent,
  base64,
  type EventOf,
  httpEvent,
  restEvent,
  type Sent,
  text,
} from "#test/support/serverless-events.ts";

type Send = (request: Sent) => Promise<Answered>;

let sets: SecurityEvents;
let received: string[];
let problems: unknown[];
const closing: (() => unknown)[] = [];

beforeAll(async () => {
  sets = await securityEvents();
});
beforeEach(() => {
  received = [];
  problems = [];
});
afterEach(async () => {
  for (const close of closing.splice(0)) {
    await close();
  }
});

const webhooks = (): ReceiverOptions => ({
  secrets: [`${SECRET}\n`],
  onEvent: ({ id }) => received.push(String(id)),
  onError: (error) => problems.push(error),
  now: () => NOW_MS,
});
const events = (): SsfReceiver =>
  new SsfReceiver({
    issuer: ISSUER,
    audience: STREAM,
    authorization: "Bearer of the stream",
    fetchKeys: async () => await Promise.resolve(sets.keys),
    onToken: ({ jti }) => received.push(jti),
    onError: (error) => problems.push(error),
    now: () => NOW_MS,
  });

// Servers.

async function portOf(server: Pick<Server, "listen" | "address">): Promise<number> {
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return (server.address() as AddressInfo).port;
}

async function overHttp(server: Server): Promise<Send> {
  const port = await portOf(server);
  closing.push(
    () => server.close(),
    () => server.closeAllConnections(),
  );
  return async ({ path, method = "POST", headers, body }) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
      method,
      headers,
      ...(method === "POST" ? { body } : {}),
    });
    return { status: answer.status, body: await answer.text() };
  };
}

function overHttp2(port: number): Send {
  const session = connect(`http://127.0.0.1:${port}`);
  closing.unshift(async () => {
    await new Promise<void>((resolve) => {
      session.close(resolve);
    });
  });
  return async ({ path, method = "POST", headers, body }) =>
    await new Promise((resolve, reject) => {
      const stream = session.request({ ...headers, ":path": path, ":method": method });
      let [status, text] = [0, ""];
      stream.on("response", (found) => {
        status = Number(found[":status"]);
      });
      stream.setEncoding("utf8").on("data", (chunk: string) => {
        text += chunk;
      });
      stream.on("end", () => resolve({ status, body: text }));
      stream.on("error", reject);
      stream.end(body);
    });
}

function routed(): RequestListener {
  const [hook, security] = [webhookListener(webhooks()), ssfListener(events())];
  return (request, response) => (request.url === "/hook" ? hook : security)(request, response);
}

function expressApp(...before: readonly RequestHandler[]): Express {
  const app = express();
  for (const handler of before) {
    app.use(handler);
  }
  app.all("/hook", webhookListener(webhooks()));
  app.all("/events", ssfListener(events()));
  return app;
}

function fastifyApp(options: object = {}): FastifyInstance {
  const app = fastify(options);
  app.register(webhookPlugin, { path: "/hook", ...webhooks() });
  app.register(ssfPlugin, { path: "/events", receiver: events() });
  closing.push(async () => await app.close());
  return app;
}

const keepRawBody = express.json({
  type: () => true,
  strict: false,
  verify: (request, _response, bytes) => void Object.assign(request, { rawBody: bytes }),
});

// Serverless platforms.

/** Calls a function that gets the event and the context. */
const invoke =
  (call: (event: object, context: object) => unknown, eventOf: EventOf): Send =>
  async (sent) =>
    answerOf(await call(eventOf(sent), { log: () => undefined }));

const codegenie = (): ((event: object, context: object) => unknown) => {
  const call = serverlessExpress({ app: expressApp() });
  return (event, context) => call(event, context, () => undefined);
};

/** `@codegenie/serverless-express` passes the event of Azure inside of the context. */
function codegenieAzure(eventSourceName: string): Send {
  const call = serverlessExpress({ app: expressApp(), eventSourceName });
  return async (sent) => {
    const request = azureRequest(sent);
    return answerOf(await call({ req: request }, request, () => undefined));
  };
}

// Frameworks with Request and Response.

const webRequest = ({ path, method = "POST", headers, body }: Sent): Request =>
  new Request(`https://hooks.example${path}`, { method, headers, ...(method === "POST" ? { body } : {}) });

const answered = async (response: Response): Promise<Answered> => ({
  status: response.status,
  body: await response.text(),
});

function honoApp(): Hono {
  const [hook, security] = [webhookHandler(webhooks()), ssfHandler(events())];
  return new Hono()
    .all("/hook", async (context) => await hook(context.req.raw))
    .all("/events", async (context) => await security(context.req.raw));
}

const handlers = () => ({ "/hook": webhookHandler(webhooks()), "/events": ssfHandler(events()) });

let functions = 0;

const ADAPTERS: readonly (readonly [name: string, open: () => Send | Promise<Send>])[] = [
  ["node:http", async () => await overHttp(createServer(routed()))],
  [
    "node:http2",
    async () => {
      const [hook, security] = [webhookListener(webhooks()), ssfListener(events())];
      const server = createHttp2Server((request, response) =>
        (request.url === "/hook" ? hook : security)(request, response),
      );
      closing.push(() => server.close());
      return overHttp2(await portOf(server as unknown as Server));
    },
  ],
  ["Express", async () => await overHttp(createServer(expressApp()))],
  [
    "Express after express.raw()",
    async () => await overHttp(createServer(expressApp(express.raw({ type: () => true })))),
  ],
  [
    "Express after express.text()",
    async () => await overHttp(createServer(expressApp(express.text({ type: () => true })))),
  ],
  [
    "Express after a parser for other types",
    async () => await overHttp(createServer(expressApp(express.urlencoded({ extended: true })))),
  ],
  [
    "Fastify",
    async () => {
      const app = fastifyApp();
      await app.ready();
      return await overHttp(app.server);
    },
  ],
  [
    "Fastify over HTTP/2",
    async () => {
      const app = fastifyApp({ http2: true });
      await app.listen({ port: 0, host: "127.0.0.1" });
      return overHttp2((app.server.address() as AddressInfo).port);
    },
  ],
  [
    "fastify.inject",
    () => {
      const app = fastifyApp();
      return async ({ path, method = "POST", headers, body }) => {
        const answer = await app.inject({
          method: method as "POST",
          url: path,
          headers: { ...headers },
          ...(method === "POST" ? { payload: body } : {}),
        });
        return { status: answer.statusCode, body: answer.body };
      };
    },
  ],
  ["serverless-http for a REST API", () => invoke(serverlessHttp(expressApp()), restEvent(text))],
  ["serverless-http for an HTTP API", () => invoke(serverlessHttp(expressApp()), httpEvent(base64))],
  ["serverless-http around a plain listener", () => invoke(serverlessHttp(routed()), httpEvent(text))],
  [
    "serverless-http for Azure",
    () => {
      const call = serverlessHttp(expressApp(), { provider: "azure" });
      return async (sent) => {
        const request = { ...azureRequest(sent), url: sent.path };
        return answerOf(await call({ log: () => undefined }, request));
      };
    },
  ],
  ["@codegenie/serverless-express for a REST API", () => invoke(codegenie(), restEvent(base64))],
  ["@codegenie/serverless-express for an HTTP API", () => invoke(codegenie(), httpEvent(text))],
  ["@codegenie/serverless-express behind a load balancer", () => invoke(codegenie(), balancerEvent(base64))],
  ["@codegenie/serverless-express for Azure, version 3", () => codegenieAzure("AZURE_HTTP_FUNCTION_V3")],
  ["@codegenie/serverless-express for Azure, version 4", () => codegenieAzure("AZURE_HTTP_FUNCTION_V4")],
  [
    "@google-cloud/functions-framework",
    async () => {
      functions += 1;
      // Its types of Express are those of its own dependency.
      registerFunction(`receiver${functions}`, routed() as never);
      return await overHttp(getTestServer(`receiver${functions}`));
    },
  ],
  [
    "@azure/functions",
    () => {
      const handle = handlers();
      return async ({ path, method = "POST", headers, body }) => {
        const request = new HttpRequest({
          method,
          url: `https://hooks.example${path}`,
          headers: { ...headers },
          ...(method === "POST" ? { body: { bytes: body } } : {}),
        });
        const answer = await handle[path](request);
        // As Azure's worker reads what a handler returns.
        const read = new HttpResponse(answer);
        return { status: read.status, body: await read.text() };
      };
    },
  ],
  [
    // Next.js calls a route handler with a subclass of Request and takes any Response, as its documents say. The package with
    // its compilers would be the largest of ours: test/e2e/tutorials.test.ts runs it where the registry is reachable.
    "a route handler of Next.js",
    () => {
      const handle = handlers();
      return async (sent) => await answered(await handle[sent.path](webRequest(sent)));
    },
  ],
  [
    "Hono",
    () => {
      const app = honoApp();
      return async (sent) => await answered(await app.request(webRequest(sent)));
    },
  ],
  ["Hono on AWS Lambda", () => invoke(handleLambda(honoApp()) as never, httpEvent(base64))],
];

const hook = (more: Parameters<typeof delivery>[0] = {}): Sent => {
  const { body, headers } = delivery(more);
  return { path: "/hook", body, headers: { "content-type": "application/json", ...headers } };
};

async function push(claims: object = {}, header: object = {}): Promise<Sent> {
  return {
    path: "/events",
    headers: { "content-type": "application/secevent+jwt", authorization: "Bearer of the stream" },
    body: Buffer.from(await sets.token({ iat: NOW_MS / 1_000, ...claims }, header)),
  };
}

/** Changes one byte without a change of the length. */
function tampered(sent: Sent): Sent {
  const body = Buffer.from(sent.body);
  const at = body.indexOf('"a.b"') + 1;
  body[at] = at === 0 ? (body[at] ?? 0) : 0x62;
  return { ...sent, body };
}

describe.each(ADAPTERS)("through %s", (_name, open) => {
  let send: Send;
  beforeEach(async () => {
    send = await open();
  });

  test("a genuine delivery arrives once, and one that was changed never", async () => {
    expect(await send(hook())).toEqual({ status: 200, body: '{"processed":true}' });
    expect(await send(hook())).toEqual({ status: 200, body: '{"processed":false}' });
    expect(await send(tampered(hook({ id: "evt_2" })))).toEqual({
      status: 401,
      body: '{"error":"SIGNATURE_INVALID"}',
    });
    const { headers, ...rest } = hook({ id: "evt_3" });
    const unsigned = { ...rest, headers: { "content-type": "application/json" } };
    expect(await send(unsigned)).toEqual({ status: 400, body: '{"error":"HEADERS_MALFORMED"}' });
    const repeated = { ...headers, "webhook-id": "evt_3, evt_3" };
    expect(await send({ ...rest, headers: repeated })).toMatchObject({ status: 400 });
    expect(received).toEqual(["evt_1"]);
    expect(problems).toHaveLength(3);
  });

  test("a ping is answered with its challenge", async () => {
    const ping = hook({ id: "evt_p", type: "ping", data: { challenge: "ü1" } });
    expect(await send(ping)).toEqual({ status: 200, body: '{"challenge":"ü1"}' });
    expect(received).toEqual([]);
  });

  test("a security event arrives once, and one that was changed never", async () => {
    const genuine = await push({ jti: "set_1" });
    expect(await send(genuine)).toEqual({ status: 202, body: "" });
    expect(await send(genuine)).toEqual({ status: 202, body: "" });
    const other = (await push({ jti: "set_2" })).body.toString().split(".");
    const [head, , signature] = genuine.body.toString().split(".");
    const forged = { ...genuine, body: Buffer.from([head, other[1], signature].join(".")) };
    const answer = await send(forged);
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.body)).toMatchObject({ err: "authentication_failed" });
    expect(
      await send({ ...genuine, headers: { ...genuine.headers, authorization: "Bearer x" } }),
    ).toMatchObject({
      status: 400,
    });
    expect(received).toEqual(["set_1"]);
    expect(problems).toHaveLength(2);
  });

  test("a body beyond the limit is refused", async () => {
    const large = hook({ data: { x: "x".repeat(600_000) } });
    expect((await send(large)).status).toBe(413);
    expect(received).toEqual([]);
  });
});

describe("a body", () => {
  const sendTo = async (...before: readonly RequestHandler[]): Promise<Send> =>
    await overHttp(createServer(expressApp(...before)));

  test("that something has read is verified if its bytes were kept as rawBody", async () => {
    const send = await sendTo(keepRawBody);
    expect(await send(hook())).toEqual({ status: 200, body: '{"processed":true}' });
    expect(await send(tampered(hook({ id: "evt_2" })))).toMatchObject({ status: 401 });
  });

  test("that something has read is a mistake of the program otherwise, not of the sender", async () => {
    const send = await sendTo(express.json());
    expect(await send(hook())).toEqual({ status: 500, body: "" });
    const raw = webRequest(hook());
    await raw.text();
    expect((await webhookHandler(webhooks())(raw)).status).toBe(500);
    const locked = webRequest(hook());
    locked.body?.getReader();
    expect((await webhookHandler(webhooks())(locked)).status).toBe(500);
    for (const problem of problems) {
      expect(String(problem)).toContain("the body was read before this receiver");
    }
    expect(problems).toHaveLength(3);
  });

  test("is waited for up to its timeout", async () => {
    const handle = webhookHandler({ ...webhooks(), bodyMs: 50 });
    let cancelled = false;
    const body = new ReadableStream<Uint8Array>({ cancel: () => void (cancelled = true) });
    const request = { method: "POST", headers: new Headers(), bodyUsed: false, body };
    expect((await handle(request)).status).toBe(408);
    expect(cancelled).toBe(true);
  });
});
