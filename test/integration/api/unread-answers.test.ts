/**
 * No route holds more for a peer than a constant: 256 pipelined requests of one connection whose answers nobody reads,
 * at every address of both APIs, with and without a credential.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { beforeAll, expect, test } from "vitest";
import { useTestApi } from "../../support/api.ts";
import { adminRoutes, apiRoutes } from "../../support/openapi.ts";
import { createTenant, type Tenant, WEBHOOK_SCOPES } from "../../support/tenant.ts";

const api = useTestApi();
const PIPELINED = 256;
/** Of heap and buffers, for each connection: what 16 requests and answers weigh, not what 256 documents do. */
const HELD_MAX = 512 * 1_024;
/** Connections that ask at once. */
const BATCH = 12;
/** Of processor time and of the event loop for a batch, on a loaded machine: what 12 times 16 requests cost. */
const CPU_MAX_MS = 8_000;
const LOOP_MAX_MS = 3_000;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

let tenant: Tenant;
beforeAll(async () => {
  tenant = await createTenant(api, [...WEBHOOK_SCOPES, "credentials:read", "compliance:read"]);
});

interface Asked {
  readonly method: string;
  readonly path: string;
  readonly port: number;
  readonly token: string;
  readonly takesBody: boolean;
}

function bytesOf({ method, path, token, takesBody }: Asked): string {
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

function held(): number {
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** Asks, and leaves the answers where they are. */
async function ask(asked: Asked): Promise<Socket> {
  const socket = connect(asked.port, "127.0.0.1");
  socket.on("error", () => undefined);
  socket.write(bytesOf(asked).repeat(PIPELINED));
  await once(socket, "readable");
  return socket;
}

test("256 pipelined requests whose answers nobody reads hold and cost what 16 do, at every route", async () => {
  const routes: Asked[] = [
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
  const variants = routes.flatMap((asked) => [asked, { ...asked, token: "" }]);
  const dear: string[] = [];
  const sockets: Socket[] = [];
  // What is kept is made at the first request.
  (await ask(routes.at(-1) as Asked)).destroy();
  await Promise.all(["/openapi.json", "/docs/scalar.js"].map(async (path) => await api.request(path)));
  const before = held();
  while (sockets.length < variants.length) {
    const batch = variants.slice(sockets.length, sockets.length + BATCH);
    const delay = monitorEventLoopDelay({ resolution: 5 });
    const cpu = process.cpuUsage();
    delay.enable();
    // oxlint-disable-next-line no-await-in-loop
    sockets.push(...(await Promise.all(batch.map(ask))));
    delay.disable();
    const { user, system } = process.cpuUsage(cpu);
    const [cpuMs, loopMs] = [(user + system) / 1_000, delay.max / 1e6];
    if (cpuMs > CPU_MAX_MS || loopMs > LOOP_MAX_MS) {
      const names = batch.map(({ method, path }) => `${method} ${path}`).join(", ");
      dear.push(`${names}: ${cpuMs} ms of CPU, ${loopMs} ms of the event loop`);
    }
  }
  const growth = held() - before;
  expect(await api.request("/healthz")).toMatchObject({ status: 200 });
  sockets.forEach((socket) => socket.destroy());
  expect(dear).toEqual([]);
  expect(growth / variants.length).toBeLessThan(HELD_MAX);
}, 300_000);
