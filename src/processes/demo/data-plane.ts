/**
 * A small data plane behind the edge, to try scopes: it answers requests with an identity signed
 * by the edge, and returns that identity.
 */
import { randomBytes } from "node:crypto";
import { rename, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join } from "node:path";
import {
  createEdgeIdentityVerifier,
  type EdgeIdentity,
  EdgeIdentityError,
} from "#lib/edge-identity/verify.ts";
import { closeAtOnce, endUnused, listenOn } from "#runtime/http-server.ts";

const KEY_BYTES = 32;

const ROUTES = [
  { method: "GET", path: "/v1/inference/{model}", scope: "inference:read" },
  { method: "POST", path: "/v1/inference/{model}", scope: "inference:read" },
  { method: "GET", path: "/v1/pipelines", scope: "pipeline:read" },
  { method: "POST", path: "/v1/pipelines", scope: "pipeline:write" },
  { method: "POST", path: "/v1/telemetry", scope: "telemetry:export", region: "eu" },
] as const;

export interface SampleDataPlane {
  /** The route table that leads to it. */
  readonly routesFile: string;
  close(): Promise<void>;
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(`${JSON.stringify(body)}\n`);
}

function answerFrom(verify: (request: IncomingMessage) => EdgeIdentity) {
  return (request: IncomingMessage, response: ServerResponse): void => {
    try {
      const { tenant, principal, scope, region } = verify(request);
      request.resume();
      answer(response, 200, { service: "sample data plane", tenant, principal, scope, region });
    } catch (error) {
      answer(response, 401, { error: error instanceof EdgeIdentityError ? error.code : "refused" });
    }
  };
}

/** Starts it on any free port, with its own key, and writes the route table to `home`. */
export async function startSampleDataPlane(home: string): Promise<SampleDataPlane> {
  const identityKey = randomBytes(KEY_BYTES).toString("base64");
  const server = createServer(answerFrom(createEdgeIdentityVerifier({ keys: [identityKey] })));
  endUnused(server);
  const { port } = await listenOn(server, { host: "127.0.0.1", port: 0 });
  const routesFile = join(home, "edge-routes.json");
  const table = {
    upstreams: { sample: { url: `http://127.0.0.1:${port}`, identity_key: identityKey } },
    routes: ROUTES.map((route) => ({ ...route, upstream: "sample" })),
  };
  await writeFile(`${routesFile}.new`, `${JSON.stringify(table, undefined, 2)}\n`, { mode: 0o600 });
  await rename(`${routesFile}.new`, routesFile);
  return {
    routesFile,
    close: async () => await closeAtOnce(server),
  };
}
