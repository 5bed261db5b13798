/** Edge processes as in a deployment: the production build, one database, one upstream. */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { Agent, createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, expect } from "vitest";
import type { Environment } from "#config/config.ts";
import { parseObject } from "./answer.ts";
import type { ServiceUnderTest, TestApi } from "./api.ts";
import { eventually } from "./eventually.ts";
import { accessToken, provision, type Provisioned } from "./factories.ts";
import { freePorts } from "./free-port.ts";
import { monotonicMs, monotonicOf } from "./monotonic.ts";
import { type SpawnedProcess, spawnSignet } from "./processes.ts";
import { sql } from "./tenant.ts";

/** More at once would only compete for the processor. */
const STARTED_AT_ONCE = 4;
const START_MS = 120_000;
/** Pause between requests to one edge, so that twenty edges can respond to continuous requests. */
const PAUSE_MS = 25;
const LAST_WORDS_MS = 2_000;
const PATH = "/v1/sample";
export const EDGE_SCOPE = "inference:read";

/** An edge's decision about a token; any other response fails the test. */
export type Outcome = "admitted" | "TOKEN_REVOKED" | "REVOCATION_STALE";

export interface Asked {
  /** Index of the edge in the list. */
  readonly edge: number;
  readonly outcome: Outcome;
  /**
   * Milliseconds of the edge's CLOCK_MONOTONIC when it admitted the token; NaN if it did not. A request that a
   * revocation ends in progress was admitted too, whatever the response.
   */
  readonly admittedAt: number;
}

export interface Question {
  /** Resolves when the request was given to the system; the edge may not have read it. */
  readonly sent: Promise<void>;
  readonly answer: Promise<Asked>;
}

export interface EdgeChild {
  readonly process: SpawnedProcess;
  send(token: string): Question;
  ask(token: string): Promise<Asked>;
}

export interface EdgeProcesses {
  readonly edges: readonly EdgeChild[];
  close(): Promise<void>;
}

export interface EdgeProcessesOptions {
  readonly api: TestApi;
  /** Settings of each edge: its PostgreSQL or its hubs. */
  readonly settings: readonly Environment[];
}

interface Response {
  readonly status: number;
  readonly stamp: unknown;
  readonly retryAfter: string | undefined;
}

function asked(edge: number, { status, stamp, retryAfter }: Response, text: string): Asked {
  const admittedAt = typeof stamp === "string" ? Number(BigInt(stamp)) / 1e6 : Number.NaN;
  if (typeof stamp === "string" && status === 200) {
    return { edge, outcome: "admitted", admittedAt };
  }
  const code = parseObject(text)["code"];
  const statuses: Readonly<Record<string, number>> = { TOKEN_REVOKED: 401, REVOCATION_STALE: 503 };
  if (
    (stamp === undefined || code === "TOKEN_REVOKED") &&
    typeof code === "string" &&
    statuses[code] === status &&
    (retryAfter !== undefined) === (status === 503)
  ) {
    return { edge, outcome: code as Outcome, admittedAt };
  }
  throw new Error(`edge ${edge} answered ${status} ${String(stamp)}: ${text}`);
}

function ask(edge: number, port: number, agent: Agent, token: string): Question {
  const going = request({
    host: "127.0.0.1",
    port,
    path: PATH,
    agent,
    headers: { authorization: `Bearer ${token}` },
  });
  const answer = new Promise<Asked>((resolve, reject) => {
    going.once("error", reject);
    going.once("response", (response) => {
      let text = "";
      const { statusCode = 0, headers } = response;
      const stamp = headers["x-signet-test-admitted-at"];
      const head = { status: statusCode, stamp, retryAfter: headers["retry-after"] };
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      // A revocation may break off the response after its headers.
      response.once("error", (error) =>
        typeof stamp === "string" ? resolve(asked(edge, head, text)) : reject(error),
      );
      response.once("end", () => {
        try {
          resolve(asked(edge, head, text));
        } catch (error) {
          reject(error);
        }
      });
    });
  });
  const sent = new Promise<void>((resolve) => void going.once("finish", resolve));
  going.end();
  return { sent, answer };
}

/** An upstream behind the edges that responds at once and never closes a connection. */
async function startUpstream(): Promise<Server> {
  const server = createServer({ keepAliveTimeout: 0 }, (_request, response) => response.end("here"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

async function untilReady(child: SpawnedProcess, port: number): Promise<void> {
  await eventually(
    async () => {
      const ended = child.state();
      if (ended === undefined) {
        return (await fetch(`http://127.0.0.1:${port}/readyz`)).ok;
      }
      return true;
    },
    "an edge to be ready",
    START_MS,
  );
  if (child.state() !== undefined) {
    throw new Error(`an edge exited:\n${child.output()}`);
  }
}

async function writeRoutes(directory: string, upstream: Server): Promise<string> {
  const path = join(directory, "routes.json");
  const url = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
  const upstreams = { data: { url, identity_key: randomBytes(32).toString("base64") } };
  const routes = [{ method: "GET", path: PATH, scope: EDGE_SCOPE, upstream: "data" }];
  await writeFile(path, JSON.stringify({ upstreams, routes }));
  return path;
}

/** Starts one edge for each settings and resolves when all are ready. */
export async function startEdgeProcesses({ api, settings }: EdgeProcessesOptions): Promise<EdgeProcesses> {
  const directory = await mkdtemp(join(tmpdir(), "signet-edges-"));
  const upstream = await startUpstream();
  const routes = await writeRoutes(directory, upstream);
  const ports = await freePorts(2 * settings.length);
  const agent = new Agent({ keepAlive: true });
  const children: SpawnedProcess[] = [];
  const close = async (): Promise<void> => {
    agent.destroy();
    await Promise.all(children.map(async (child) => await child.stop("SIGKILL")));
    upstream.closeAllConnections();
    upstream.close();
    await rm(directory, { recursive: true });
  };
  const start = async (index: number): Promise<void> => {
    const [port = 0, metricsPort = 0] = ports.slice(2 * index);
    const child = spawnSignet(["edge"], {
      SIGNET_ENV: "development",
      SIGNET_MTLS_MODE: "off",
      SIGNET_PUBLIC_URL: api.publicUrl,
      SIGNET_EDGE_LISTEN: `127.0.0.1:${port}`,
      SIGNET_METRICS_LISTEN: `127.0.0.1:${metricsPort}`,
      SIGNET_EDGE_ROUTES: routes,
      SIGNET_TEST_ADMISSION_HEADER: "on",
      SIGNET_LOG_LEVEL: "warn",
      ...settings[index],
    });
    children[index] = child;
    await untilReady(child, metricsPort);
  };
  try {
    for (let first = 0; first < settings.length; first += STARTED_AT_ONCE) {
      const group = settings.slice(first, first + STARTED_AT_ONCE);
      await Promise.all(group.map(async (_settings, offset) => await start(first + offset)));
    }
  } catch (error) {
    await close();
    throw error;
  }
  const edges = children.map((child, index) => {
    const send = (token: string): Question => ask(index, ports[2 * index] ?? 0, agent, token);
    const askChild = async (token: string): Promise<Asked> => {
      try {
        return await send(token).answer;
      } catch (error) {
        // A crashed process may still be writing its reason.
        await Promise.race([child.ended, delay(LAST_WORDS_MS)]);
        const { code, signal } = child.state() ?? {};
        const state = child.state() === undefined ? "runs" : `exited (${code ?? signal})`;
        throw new Error(`edge ${index} ${state}: ${child.output()}`, { cause: error });
      }
    };
    return { process: child, send, ask: askChild };
  });
  return { edges, close };
}

/** Sends requests with a token to each edge continuously until stopped. */
export class Asking {
  readonly answers: Asked[] = [];
  readonly #loops: Promise<unknown>;
  #stopped = false;

  constructor(edges: readonly EdgeChild[], token: string) {
    this.#loops = Promise.all(edges.map(async (edge) => await this.#loop(edge, token)));
    // The error reaches the callers of `until` and `stop`.
    this.#loops.catch(() => undefined);
  }

  /** Resolves when each edge has given this outcome `times` times from now on. */
  async until(edges: number, outcome: Outcome, times = 3): Promise<void> {
    const from = this.answers.length;
    const failed = this.#loops.then(async () => await new Promise<never>(() => undefined));
    const enough = (): boolean => {
      const counts = new Map<number, number>();
      for (const answer of this.answers.slice(from)) {
        if (answer.outcome === outcome) {
          counts.set(answer.edge, (counts.get(answer.edge) ?? 0) + 1);
        }
      }
      return [...counts.values()].filter((count) => count >= times).length === edges;
    };
    await Promise.race([failed, eventually(enough, `${outcome} from ${edges} edges`)]);
  }

  /** Returns when a token was last admitted; -Infinity if never. */
  lastAdmission(): number {
    return this.answers.reduce((last, { admittedAt }) => (admittedAt > last ? admittedAt : last), -Infinity);
  }

  /** Stops, and resolves with all outcomes, including those of requests in flight. */
  async stop(): Promise<readonly Asked[]> {
    this.#stopped = true;
    await this.#loops;
    return this.answers;
  }

  async #loop(edge: EdgeChild, token: string): Promise<void> {
    while (!this.#stopped) {
      this.answers.push(await edge.ask(token));
      await delay(PAUSE_MS);
    }
  }
}

/** Provides the calling file with requests to its edges, which end with `stop`, at the latest with each test. */
export function useAsking(edges: () => readonly EdgeChild[]): {
  start(token: string, some?: readonly EdgeChild[]): Asking;
  stop(): Promise<void>;
} {
  const running: Asking[] = [];
  const stop = async (): Promise<void> => {
    await Promise.allSettled(running.splice(0).map(async (asking) => await asking.stop()));
  };
  afterEach(stop);
  return {
    start: (token, some = edges()) => {
      const asking = new Asking(some, token);
      running.push(asking);
      return asking;
    },
    stop,
  };
}

/** A client with a token for the edges' route. */
export interface Holder {
  readonly client: Provisioned;
  readonly token: string;
}

/** Creates a client with a token. */
export async function tokenHolder(api: TestApi): Promise<Holder> {
  const client = await provision(api, { scopes: [EDGE_SCOPE] });
  return { client, token: await accessToken(api, client) };
}

/** A revocation with its commit. */
export interface Revoked {
  /** The commit, by CLOCK_MONOTONIC. */
  readonly at: number;
  readonly edges: {
    readonly live: number;
    readonly acked: number;
    readonly max_ms: number | null;
    readonly outcome: string;
    readonly processes: readonly { readonly kind: string; readonly state: string }[];
  };
}

/** Returns when a revocation was committed, by CLOCK_MONOTONIC. */
export async function committedAt(api: ServiceUnderTest, revocationId: string): Promise<number> {
  const [commit] = await sql<{ at: Date }>(
    api,
    "SELECT pg_xact_commit_timestamp(xmin) AS at FROM revocations WHERE id = $1",
    [revocationId],
  );
  return monotonicOf(commit?.at ?? "");
}

/** Ends all connections to PostgreSQL with this name, once there are so many: on a busy machine, one may be new. */
export async function endConnections(api: TestApi, name: string, atLeast: number): Promise<void> {
  const all = "FROM pg_stat_activity WHERE application_name = $1";
  await eventually(
    async () => (await sql(api, `SELECT ${all}`, [name])).length >= atLeast,
    `${atLeast} connections of ${name}`,
  );
  await sql(api, `SELECT pg_terminate_backend(pid) ${all}`, [name]);
}

/** Returns the edge's decision about a token, once it hears revocations. */
export async function verdictOf(edge: EdgeChild, token: string): Promise<Asked> {
  return await eventually(async () => {
    const asked = await edge.ask(token);
    return asked.outcome !== "REVOCATION_STALE" && asked;
  }, "an edge that hears revocations");
}

/** Revokes a credential. */
export async function revokeCredential(api: TestApi, { credentialId }: Provisioned): Promise<Revoked> {
  const sentAt = monotonicMs();
  const answer = await api.admin("POST", `/credentials/${credentialId}/revoke`, { reason: "compromised" });
  expect(answer).toMatchObject({ status: 200 });
  // `committed_at` precedes the commit by a turn of the api's event loop, which this busy process may delay.
  const at = await committedAt(api, String(answer.body["revocation_id"]));
  expect(at).toBeGreaterThan(sentAt - 5);
  expect(at).toBeGreaterThan(monotonicOf(String(answer.body["committed_at"])) - 5);
  expect(at).toBeLessThan(monotonicMs());
  return { at, edges: answer.body["edges"] as Revoked["edges"] };
}
