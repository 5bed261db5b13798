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

/** The time of the process under test, which a test can move. */
interface TestClock extends Clock {
  /** Moves the time by so many milliseconds from where it is. */
  advance(ms: number): void;
}

export interface TestApi {
  readonly publicUrl: string;
  readonly adminUrl: string;
  readonly publicPort: number;
  readonly adminPort: number;
  /** The mutual TLS listener's; 0 where there is none. */
  readonly edgePort: number;
  readonly operatorToken: string;
  readonly database: TestDatabase;
  readonly clock: TestClock;
  /** Everything the process logged so far. */
  readonly log: readonly string[];
  /** Environment for child processes on the same database. */
  readonly environment: Environment;
  /** Asks the public API. */
  request(path: string, init?: RequestInit): Promise<Answer>;
  /** Asks the operators' API with the operator token; `body` is sent as JSON. */
  admin(method: string, path: string, body?: unknown): Promise<Answer>;
  /** A token request in JSON. */
  token(parameters: Readonly<Record<string, unknown>>): Promise<Answer>;
  close(): Promise<void>;
}

export interface TestApiOptions {
  /** Settings on top of those that every test has. */
  readonly environment?: Environment;
  /** A worker beside the api, on the same database, in a Temporal namespace of their own; its time cannot be moved. */
  readonly worker?: boolean;
  /** Its database, where it is not to be one of the run's server; dropped at the end. */
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

/** Loaded only where it is wanted: Temporal's worker is a large library. */
async function startTestWorker(options: WorkerProcessOptions): Promise<WorkerProcess> {
  const { startWorker } = await import("../../src/processes/worker.ts");
  return await startWorker(options);
}

/** Starts an api process on a database of its own; close it at the end. */
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

/** One api process for the file or `describe` that calls this. Its members can be used in tests and later hooks. */
export function useTestApi(options: TestApiOptions = {}): TestApi {
  const started = useStarted("the api", async () => await startTestApi(options));
  return new Proxy({} as TestApi, {
    get: (_target, member) => Reflect.get(started.current, member) as unknown,
  });
}

/**
 * Sends bytes as they are and reads until the server closes: for what no HTTP client would send. Each further chunk is
 * sent when something has come back.
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
