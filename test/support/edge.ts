/** A real edge for one test file, with a real api and an upstream that records its requests. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll } from "vitest";
import { type Environment, loadConfig } from "#config/config.ts";
import { createLogger } from "#observability/logger.ts";
import { type EdgeProcess, startEdge } from "#processes/edge.ts";
import type { TestApi } from "./api.ts";
import { observe } from "./failure-report.ts";

/** A request as the upstream received it. */
export interface Forwarded {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly rawHeaders: readonly string[];
  readonly body: string;
}

export type Behaviour = (request: IncomingMessage, response: ServerResponse) => void;

export interface TestUpstream {
  readonly origin: string;
  readonly requests: Forwarded[];
  /** Number of connections opened so far. */
  readonly connections: number;
  /** Sets how it responds, instead of 200. */
  behave(behaviour: Behaviour | undefined): void;
  close(): Promise<void>;
}

async function listenOnLoopback(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

/** Starts an upstream. */
export async function startUpstream(): Promise<TestUpstream> {
  const requests: Forwarded[] = [];
  let behaviour: Behaviour | undefined;
  let connections = 0;
  const server = createServer((request, response) => {
    if (behaviour !== undefined) {
      behaviour(request, response);
      return;
    }
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const { method = "", url = "", headers, rawHeaders } = request;
      requests.push({ method, url, headers, rawHeaders, body: Buffer.concat(chunks).toString() });
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ from: "upstream", url }));
    });
  });
  server.on("connection", () => (connections += 1));
  const port = await listenOnLoopback(server);
  return {
    origin: `http://127.0.0.1:${port}`,
    requests,
    get connections() {
      return connections;
    },
    behave: (next) => {
      behaviour = next;
    },
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

export interface TestEdge {
  readonly port: number;
  readonly url: string;
  readonly upstream: TestUpstream;
  /** In base64. */
  readonly identityKey: string;
  readonly process: EdgeProcess;
  readonly log: readonly string[];
  /** Writes another route table, which takes effect at the next reload. */
  writeRoutes(table: unknown): void;
  /** Stops it before the end of the tests. */
  stop(): Promise<void>;
}

export interface TestEdgeOptions {
  readonly environment?: () => Environment;
  /** Routes of the table, with upstream `data` (default: `ROUTES`). */
  readonly routes?: readonly object[];
}

/** Routes that most tests use. */
const ROUTES = [
  { method: "GET", path: "/v1/inference/{model}", scope: "inference:read", upstream: "data" },
  { method: "POST", path: "/v1/pipelines", scope: "pipeline:write", upstream: "data" },
  { method: ["GET", "POST"], path: "/v1/telemetry/*", scope: "telemetry:export", upstream: "data" },
  { method: "GET", path: "/v1/regional", scope: "inference:read", upstream: "data", region: "eu" },
] as const;

/** Provides one edge to the calling file or `describe`. Use its members in tests and later hooks. */
export function useTestEdge(api: TestApi, options: TestEdgeOptions = {}): TestEdge {
  const directory = mkdtempSync(join(tmpdir(), "signet-edge-"));
  const path = join(directory, "routes.json");
  const identityKey = randomBytes(32).toString("base64");
  const lines: string[] = [];
  let edge: TestEdge | undefined;
  beforeAll(async () => {
    observe({ name: "the edge", log: () => lines.join("") });
    const upstream = await startUpstream();
    const writeRoutes = (table: unknown): void => writeFileSync(path, JSON.stringify(table));
    writeRoutes({
      upstreams: { data: { url: upstream.origin, identity_key: identityKey } },
      routes: options.routes ?? ROUTES,
    });
    const environment = {
      ...api.environment,
      SIGNET_EDGE_LISTEN: "127.0.0.1:0",
      SIGNET_EDGE_ROUTES: path,
      SIGNET_EDGE_API_URL: api.publicUrl,
      ...options.environment?.(),
    };
    const config = loadConfig(environment, "edge");
    const process = await startEdge({
      config: { ...config, databaseUrl: api.database.url },
      environment,
      log: createLogger({ level: "debug", destination: { write: (line) => void lines.push(line) } }),
      clock: api.clock,
    });
    const { port } = process.address;
    let stopped: Promise<void> | undefined;
    const stop = async (): Promise<void> => await (stopped ??= process.close());
    const url = `http://127.0.0.1:${port}`;
    edge = { port, url, upstream, identityKey, process, log: lines, writeRoutes, stop };
  });
  afterAll(async () => {
    await edge?.stop();
    await edge?.upstream.close();
    rmSync(directory, { recursive: true });
  });
  return new Proxy({} as TestEdge, {
    get: (_target, member) => {
      if (edge === undefined) {
        throw new Error("the edge is started in beforeAll; use it in tests and later hooks");
      }
      return Reflect.get(edge, member) as unknown;
    },
  });
}
