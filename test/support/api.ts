/** A real api process for one test file: its own database, its own ports, HTTP over sockets. */
import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import { inject } from "vitest";
import { type Environment, loadConfig } from "../../src/config/config.ts";
import type { Clock } from "../../src/domain/clock.ts";
import { createLogger } from "../../src/observability/logger.ts";
import { type ApiProcess, startApi } from "../../src/processes/api.ts";
import type { WorkerProcess } from "../../src/processes/worker.ts";
import type { WorkerProcessOptions } from "../../src/processes/worker/options.ts";
import { type Answer, readAnswer } from "./answer.ts";
import { freePort } from "./free-port.ts";
import { checkpointSettings } from "./checkpoints.ts";
import { NO_LIMITS } from "./no-limits.ts";
import { createTestDatabase, testNamespace, type TestDatabase } from "./services.ts";
import { useStarted } from "./started.ts";

export type { Answer };

/** The clock of the process under test, which a test can advance. */
interface TestClock extends Clock {
  /** Advances the time by `ms`. */
  advance(ms: number): void;
}

export interface TestApi {
  readonly publicUrl: string;
  readonly adminUrl: string;
  readonly publicPort: number;
  readonly adminPort: number;
  /** Port of the mutual TLS listener; 0 if there is none. */
  readonly edgePort: number;
  readonly operatorToken: string;
  readonly database: TestDatabase;
  readonly clock: TestClock;
  /** Everything the process has logged so far. */
  readonly log: readonly string[];
  /** Environment for child processes that use the same database. */
  readonly environment: Environment;
  /** Sends a request to the public API. */
  request(path: string, init?: RequestInit): Promise<Answer>;
  /** Sends a request to the operators' API with the operator token and `body` as JSON. */
  admin(method: string, path: string, body?: unknown): Promise<Answer>;
  /** Sends a token request as JSON. */
  token(parameters: Readonly<Record<string, unknown>>): Promise<Answer>;
  close(): Promise<void>;
}

export interface TestApiOptions {
  /** Settings in addition to those of every test. */
  readonly environment?: Environment;
  /** Also runs a worker on the same database, in its own Temporal namespace. The worker's clock cannot be advanced. */
  readonly worker?: boolean;
  /** Creates the database, if not on the run's server; dropped at the end. */
  readonly database?: () => Promise<TestDatabase>;
}

function testClock(): TestClock {
  let offset = 0;
  return {
    now: () => Date.now() + offset,
    advance: (ms) => {
      offset += ms;
    },
  };
}

async function testEnvironment(database: TestDatabase): Promise<Environment> {
  const port = await freePort();
  return {
    ...NO_LIMITS,
    SIGNET_ENV: "development",
    SIGNET_API_LISTEN: `127.0.0.1:${port}`,
    SIGNET_ADMIN_LISTEN: "127.0.0.1:0",
    SIGNET_EDGE_LISTEN: "127.0.0.1:0",
    SIGNET_PUBLIC_URL: `http://127.0.0.1:${port}`,
    SIGNET_DATABASE_URL: database.url,
    TEMPORAL_ADDRESS: inject("temporalAddress"),
    SIGNET_KEK: randomBytes(32).toString("base64"),
    ...checkpointSettings(),
    SIGNET_PEPPER: randomBytes(32).toString("base64"),
    SIGNET_OPERATOR_TOKEN: randomBytes(32).toString("hex"),
  };
}

/** Imports the worker only if needed, because Temporal's worker is a large library. */
async function startTestWorker(options: WorkerProcessOptions): Promise<WorkerProcess> {
  const { startWorker } = await import("../../src/processes/worker.ts");
  return await startWorker(options);
}

/** Starts an api process on its own database; close it at the end. */
async function startTestApi(options: TestApiOptions): Promise<TestApi> {
  const database = await (options.database ?? createTestDatabase)();
  const environment = {
    ...(await testEnvironment(database)),
    ...(options.worker === true ? { TEMPORAL_NAMESPACE: await testNamespace() } : {}),
    ...options.environment,
  };
  const config = loadConfig(environment);
  const temporalAddress = inject("temporalAddress");
  const lines: string[] = [];
  const log = createLogger({ level: "trace", destination: { write: (line) => void lines.push(line) } });
  const clock = testClock();
  const ready = { ...config, databaseUrl: database.url, temporalAddress };
  const running: ApiProcess = await startApi({
    config: ready,
    log,
    clock,
  });
  const worker = options.worker === true ? await startTestWorker({ config: ready, log }) : undefined;
  const operatorToken = config.operatorToken ?? "";
  const adminUrl = `http://127.0.0.1:${running.adminAddress.port}`;

  const api: TestApi = {
    publicUrl: config.publicUrl,
    adminUrl,
    publicPort: running.publicAddress.port,
    adminPort: running.adminAddress.port,
    edgePort: running.edgeAddress?.port ?? 0,
    operatorToken,
    database,
    clock,
    log: lines,
    environment: { ...environment, SIGNET_ADMIN_LISTEN: `127.0.0.1:${running.adminAddress.port}` },
    request: async (path, init) => await readAnswer(await fetch(config.publicUrl + path, init)),
    admin: async (method, path, body) =>
      await readAnswer(
        await fetch(`${adminUrl}/admin/v1${path}`, {
          method,
          headers: {
            authorization: `Bearer ${operatorToken}`,
            ...(body === undefined ? {} : { "content-type": "application/json" }),
          },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        }),
      ),
    token: async (parameters) =>
      await api.request("/v1/auth/token", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(parameters),
      }),
    close: async () => {
      await worker?.close();
      await running.close();
      await database.drop();
    },
  };
  return api;
}

/** Provides one api process to the calling file or `describe`. Use its members in tests and later hooks. */
export function useTestApi(options: TestApiOptions = {}): TestApi {
  const started = useStarted("the api", async () => await startTestApi(options));
  return new Proxy({} as TestApi, {
    get: (_target, member) => Reflect.get(started.current, member) as unknown,
  });
}

/**
 * Sends raw bytes, which no HTTP client would send, and reads until the server closes. Sends each further chunk after
 * the server has responded.
 */
export async function exchange(port: number, ...chunks: readonly string[]): Promise<string> {
  return await new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    let received = "";
    socket.setEncoding("latin1");
    const rest = [...chunks];
    const next = (): void => void socket.write(rest.shift() ?? "", "latin1");
    socket.on("data", (chunk: string) => {
      received += chunk;
      next();
    });
    socket.on("end", () => resolve(received));
    socket.on("close", () => resolve(received));
    socket.on("error", (error) => (received === "" ? reject(error) : resolve(received)));
    next();
  });
}
