/** A new route table takes effect between requests; an invalid one changes nothing and is reported. */
import { once } from "node:events";
import { Agent, request as httpRequest, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { beforeAll, expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { useTestEdge } from "#test/support/edge.ts";
import { eventually } from "#test/support/eventually.ts";
import { accessToken, bearer, provision } from "#test/support/factories.ts";
import { call } from "#test/support/https-request.ts";

const api = useSharedApi();
const edge = useTestEdge(api);

let token: string;
beforeAll(async () => {
  const client = await provision(api, {
    scopes: ["inference:read", "telemetry:export"],
    environment: "development",
  });
  token = await accessToken(api, client);
});

const upstreams = () => ({ data: { url: edge.upstream.origin, identity_key: edge.identityKey } });
const ask = async (path: string) => await call(path, { port: edge.port, headers: bearer(token) });

async function readiness(): Promise<Readonly<Record<string, unknown>>> {
  return (await call("/readyz", { port: edge.port })).body;
}

test("a new table takes over", async () => {
  expect(await ask("/v1/new")).toMatchObject({ status: 404 });
  edge.writeRoutes({
    upstreams: upstreams(),
    routes: [
      { method: "GET", path: "/v1/new", scope: "inference:read", upstream: "data" },
      { method: "GET", path: "/v1/inference/{model}", scope: "pipeline:write", upstream: "data" },
    ],
  });
  // The edge polls its file.
  await eventually(async () => (await ask("/v1/new")).status === 200, "the new route");
  expect(await ask("/v1/inference/x")).toMatchObject({ status: 403, body: { code: "SCOPE_VIOLATION" } });
  expect(await readiness()).toMatchObject({ status: "ready", routes: { count: 2 } });
});

test("an invalid table leaves the previous one in effect and is reported", async () => {
  edge.writeRoutes({
    upstreams: {},
    routes: [{ method: "GET", path: "/v1/new", scope: "bad", upstream: "none" }],
  });
  await edge.process.reload();
  expect(await ask("/v1/new")).toMatchObject({ status: 200 });
  expect(await readiness()).toMatchObject({
    status: "ready",
    routes: {
      count: 2,
      refused: [expect.stringMatching(/scope must be/), expect.stringMatching(/not in upstreams/)],
    },
  });
  edge.writeRoutes({ upstreams: upstreams(), routes: [] });
  await edge.process.reload();
  expect(await readiness()).toMatchObject({ routes: { count: 0 } });
  expect(JSON.stringify(await readiness())).not.toContain("refused");
});

test("reloading under load drops no request, and running requests keep their route", async () => {
  const table = (more: object[]) => ({
    upstreams: upstreams(),
    routes: [{ method: "GET", path: "/v1/steady", scope: "inference:read", upstream: "data" }, ...more],
  });
  edge.writeRoutes(table([{ method: "GET", path: "/v1/slow", scope: "inference:read", upstream: "data" }]));
  await edge.process.reload();

  let finish: (() => void) | undefined;
  edge.upstream.behave((request, response) => {
    if (request.url === "/v1/slow") {
      finish = () => response.end("done");
    } else {
      response.end("ok");
    }
  });
  // One may be rejected, while the edge has no news of revocations.
  const slow = await eventually(async () => {
    const tried = httpRequest({
      port: edge.port,
      host: "127.0.0.1",
      path: "/v1/slow",
      headers: bearer(token),
    });
    tried.end();
    const begun = eventually(() => finish !== undefined, "the slow request");
    return await Promise.race([begun.then(() => tried), once(tried, "response").then(() => undefined)]);
  }, "the slow request to be admitted");

  const agent = new Agent({ keepAlive: true, maxSockets: 4 });
  const statuses: number[] = [];
  const enough = new AbortController();
  const clients = Array.from({ length: 4 }, async () => {
    while (!enough.signal.aborted) {
      const request = httpRequest({
        port: edge.port,
        host: "127.0.0.1",
        path: "/v1/steady",
        agent,
        headers: bearer(token),
      });
      request.end();
      const [answer] = (await once(request, "response")) as [IncomingMessage];
      if (!(await text(answer)).includes("REVOCATION_STALE")) {
        statuses.push(answer.statusCode ?? 0);
      }
    }
  });
  for (let round = 0; round < 20; round += 1) {
    const before = statuses.length;
    // New deadlines need new connections, but must not close those in use.
    const other = { ...upstreams().data, headers_timeout_ms: 20_000 + round };
    edge.writeRoutes({ ...table([]), upstreams: { data: other } });
    await edge.process.reload();
    await eventually(() => statuses.length > before + 8, "requests between two reloads");
  }
  enough.abort();
  await Promise.all(clients);
  agent.destroy();
  expect(new Set(statuses)).toEqual(new Set([200]));

  finish?.();
  const [answer] = (await once(slow, "response")) as [IncomingMessage];
  expect(answer.statusCode).toBe(200);
  edge.upstream.behave(undefined);
  expect(await ask("/v1/slow")).toMatchObject({ status: 404 });
});
