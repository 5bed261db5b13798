/**
 * Limits what unread answers can hold: 256 pipelined requests on one connection, whose answers
 * nobody reads. Every address of both APIs is tested, with and without a credential.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { beforeAll, expect, test } from "vitest";
import { cpuMs } from "#test/support/cpu-time.ts";
import { useTestApi } from "#test/support/api.ts";
import { adminRoutes, apiRoutes } from "#test/support/openapi.ts";
import { withoutPause } from "#test/support/pauses.ts";
import { createTenant, type Tenant, WEBHOOK_SCOPES } from "#test/support/tenant.ts";

const api = useTestApi();
const PIPELINED = 256;
/** Limit of heap and buffers per connection, in bytes: enough for 16 requests and answers, not for 256. */
const HELD_MAX = 512 * 1_024;
/** Number of connections opened at the same time. */
const BATCH = 12;
/** Limits per batch, in milliseconds: the cost of 12 times 16 requests. */
const CPU_MAX_MS = 8_000;
const LOOP_MAX_MS = 3_000;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

let tenant: Tenant;
beforeAll(async () => {
  tenant = await createTenant(api, [...WEBHOOK_SCOPES, "credentials:read", "compliance:read"]);
});

interface RouteRequest {
  readonly method: string;
  readonly path: string;
  readonly port: number;
  readonly token: string;
  readonly takesBody: boolean;
}

function bytesOf({ method, path, token, takesBody }: RouteRequest): string {
  const target = path.replaceAll(/\{[^}]+\}/g, "0".repeat(24));
  return [
    `${method} ${target} HTTP/1.1`,
    "Host: signet",
    ...(token === "" ? [] : [`Authorization: Bearer ${token}`]),
    ...(takesBody ? ["Content-Type: application/json", "Content-Length: 2"] : []),
    "",
    takesBody ? "{}" : "",
  ].join("\r\n");
}

function heldBytes(): number {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** Sends the requests and leaves the answers unread. */
async function sendUnread(request: RouteRequest): Promise<Socket> {
  const socket = connect(request.port, "127.0.0.1");
  socket.on("error", () => undefined);
  socket.write(bytesOf(request).repeat(PIPELINED));
  await once(socket, "readable");
  return socket;
}

/** Sends a batch of requests, and checks what it costs. */
async function sendBatch(batch: readonly RouteRequest[]): Promise<Socket[]> {
  const delay = monitorEventLoopDelay({ resolution: 5 });
  const before = cpuMs();
  delay.enable();
  const sockets = await Promise.all(batch.map(sendUnread));
  delay.disable();
  const [usedMs, loopMs] = [cpuMs() - before, delay.max / 1e6];
  if (usedMs > CPU_MAX_MS || loopMs > LOOP_MAX_MS) {
    sockets.forEach((socket) => socket.destroy());
    const names = batch.map(({ method, path }) => `${method} ${path}`).join(", ");
    throw new Error(`${names}: ${usedMs} ms of CPU, ${loopMs} ms of the event loop`);
  }
  return sockets;
}

test("256 pipelined requests with unread answers hold and cost no more than 16, at every route", async () => {
  const routes: RouteRequest[] = [
    ...(await apiRoutes(api)).map((route) => ({ ...route, port: api.publicPort, token: tenant.token })),
    ...(await adminRoutes(api)).map((route) => ({
      ...route,
      path: `/admin/v1${route.path}`,
      port: api.adminPort,
      token: api.operatorToken,
    })),
    ...[
      "/openapi.json",
      "/docs",
      "/docs/scalar.js",
      "/errors/not-found",
      "/portal",
      "/nowhere",
      "/readyz",
    ].map((path) => ({ method: "GET", path, port: api.publicPort, token: "", takesBody: false })),
  ];
  expect(routes.length).toBeGreaterThan(90);
  const variants = routes.flatMap((request) => [request, { ...request, token: "" }]);
  const sockets: Socket[] = [];
  // The first request fills the caches.
  (await sendUnread(routes.at(-1) as RouteRequest)).destroy();
  await Promise.all(["/openapi.json", "/docs/scalar.js"].map(async (path) => await api.request(path)));
  const before = heldBytes();
  while (sockets.length < variants.length) {
    const batch = variants.slice(sockets.length, sockets.length + BATCH);
    sockets.push(...(await withoutPause(async () => await sendBatch(batch))));
  }
  const growth = heldBytes() - before;
  expect(await api.request("/healthz")).toMatchObject({ status: 200 });
  sockets.forEach((socket) => socket.destroy());
  expect(growth / variants.length).toBeLessThan(HELD_MAX);
}, 300_000);
