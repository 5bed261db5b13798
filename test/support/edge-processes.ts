/** Edges as a deployment runs them: processes of the production build, one database, one upstream behind them. */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { Agent, createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseObject } from "./answer.ts";
import type { TestApi } from "./api.ts";
import { eventually } from "./eventually.ts";
import { freePorts } from "./free-port.ts";
import { IMAGE_ENVIRONMENT, productionImage, type SpawnedProcess, spawnProcess } from "./processes.ts";

/** More at once only take each other's processor. */
const STARTED_AT_ONCE = 4;
const START_MS = 120_000;
/** Between two questions to one edge: twenty of them are to be asked all the time, and to have time to answer. */
const PAUSE_MS = 25;
const LAST_WORDS_MS = 2_000;
const PATH = "/v1/sample";
export const EDGE_SCOPE = "inference:read";

/** What became of a token at an edge; anything else is an error of the test. */
export type Outcome = "admitted" | "TOKEN_REVOKED" | "REVOCATION_STALE";

export interface Asked {
  /** Which edge, by its place in the list. */
  readonly edge: number;
  readonly outcome: Outcome;
  /**
   * When the edge let the token in, by its own reading of CLOCK_MONOTONIC; milliseconds, NaN when it did not. What a
   * revocation ends under way was let in too, whatever it is answered.
   */
  readonly admittedAt: number;
}

export interface Question {
  /** Resolves when the request is with the system; the edge need not have read it. */
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
  /** Where each of them finds PostgreSQL. */
  readonly databasePorts: readonly number[];
}

function asked(edge: number, status: number, stamp: unknown, text: string): Asked {
  const admittedAt = typeof stamp === "string" ? Number(BigInt(stamp)) / 1e6 : Number.NaN;
  if (typeof stamp === "string" && status === 200) {
    return { edge, outcome: "admitted", admittedAt };
  }
  const code = parseObject(text)["code"];
  const statuses: Readonly<Record<string, number>> = { TOKEN_REVOKED: 401, REVOCATION_STALE: 503 };
  if (
    (stamp === undefined || code === "TOKEN_REVOKED") &&
    typeof code === "string" &&
    statuses[code] === status
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
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      // Broken off by a revocation behind its headers.
      response.once("error", (error) =>
        typeof stamp === "string" ? resolve(asked(edge, statusCode, stamp, text)) : reject(error),
      );
      response.once("end", () => {
        try {
          resolve(asked(edge, statusCode, stamp, text));
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

/** Something behind the edges that answers at once and never ends a connection by itself. */
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
    throw new Error(`an edge has ended:\n${child.output()}`);
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

/** Starts an edge for each of the ports and resolves when all of them are ready. */
export async function startEdgeProcesses({
  api,
  databasePorts,
}: EdgeProcessesOptions): Promise<EdgeProcesses> {
  const image = await productionImage();
  const directory = await mkdtemp(join(tmpdir(), "signet-edges-"));
  const upstream = await startUpstream();
  const routes = await writeRoutes(directory, upstream);
  const ports = await freePorts(2 * databasePorts.length);
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
    const database = new URL(api.database.url);
    database.port = String(databasePorts[index]);
    const [port = 0, metricsPort = 0] = ports.slice(2 * index);
    const child = spawnProcess({
      command: ["node", "dist/src/processes/main.js", "edge"],
      cwd: image,
      environment: {
        ...IMAGE_ENVIRONMENT,
        SIGNET_ENV: "development",
        SIGNET_MTLS_MODE: "off",
        SIGNET_PUBLIC_URL: api.publicUrl,
        SIGNET_DATABASE_URL: database.href,
        SIGNET_EDGE_LISTEN: `127.0.0.1:${port}`,
        SIGNET_METRICS_LISTEN: `127.0.0.1:${metricsPort}`,
        SIGNET_EDGE_ROUTES: routes,
        SIGNET_TEST_ADMISSION_HEADER: "on",
        SIGNET_LOG_LEVEL: "warn",
      },
    });
    children[index] = child;
    await untilReady(child, metricsPort);
  };
  try {
    for (let first = 0; first < databasePorts.length; first += STARTED_AT_ONCE) {
      const group = databasePorts.slice(first, first + STARTED_AT_ONCE);
      await Promise.all(group.map(async (_port, offset) => await start(first + offset)));
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
        // A process that has just crashed is about to say why.
        await Promise.race([child.ended, delay(LAST_WORDS_MS)]);
        const { code, signal } = child.state() ?? {};
        const state = child.state() === undefined ? "runs" : `has ended (${code ?? signal})`;
        throw new Error(`edge ${index} ${state}: ${child.output()}`, { cause: error });
      }
    };
    return { process: child, send, ask: askChild };
  });
  return { edges, close };
}

/** Asks each edge all the time with a token, until it is told to stop. */
export class Asking {
  readonly answers: Asked[] = [];
  readonly #loops: Promise<unknown>;
  #stopped = false;

  constructor(edges: readonly EdgeChild[], token: string) {
    this.#loops = Promise.all(edges.map(async (edge) => await this.#loop(edge, token)));
    // Told to whoever waits or stops.
    this.#loops.catch(() => undefined);
  }

  /** Resolves when each of the edges has given this answer so many times from now on. */
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

  /** When a token was admitted for the last time; never: -Infinity. */
  lastAdmission(): number {
    return this.answers.reduce((last, { admittedAt }) => (admittedAt > last ? admittedAt : last), -Infinity);
  }

  /** Resolves with all answers, those to what was under way included. */
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
