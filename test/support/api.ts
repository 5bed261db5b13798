/** A real api for test files, one for each or one that many share: its own database and ports, HTTP over sockets. */
import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import { inject } from "vitest";
import { type Environment, loadConfig } from "#config/config.ts";
import type { Clock } from "#domain/clock.ts";
import { createLogger } from "#observability/logger.ts";
import { type ApiProcess, startApi } from "#processes/api.ts";
import type { WorkerProcess } from "#processes/worker.ts";
import type { WorkerProcessOptions } from "#processes/worker/services.ts";
import { type Answer, unlessStale } from "./answer.ts";
import { observe, type Observed, RequestTrail } from "./failure-report.ts";
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

/** What every test may use of an api, also of one that other files share. */
export interface TestApi {
  readonly publicUrl: string;
  readonly adminUrl: string;
  readonly publicPort: number;
  readonly adminPort: number;
  /** Port of the mutual TLS listener; 0 if there is none. */
  readonly edgePort: number;
  readonly operatorToken: string;
  readonly database: Omit<TestDatabase, "drop">;
  readonly clock: Clock;
  /** Environment for child processes that use the same database. */
  readonly environment: Environment;
  /** Sends a request to the public API, as `unlessStale`. */
  request(path: string, init?: RequestInit): Promise<Answer>;
  /** The same, once, also while the process cannot hear revocations. */
  requestOnce(path: string, init?: RequestInit): Promise<Answer>;
  /** Sends a request to the operators' API with the operator token and `body` as JSON. */
  admin(method: string, path: string, body?: unknown): Promise<Answer>;
  /** Sends a token request as JSON. */
  token(parameters: Readonly<Record<string, unknown>>): Promise<Answer>;
}

/** The api of one file. */
export interface OwnApi extends TestApi {
  readonly clock: TestClock;
  /** Everything the process has logged so far. */
  readonly log: readonly string[];
}

interface StartedApi extends OwnApi {
  readonly observed: Observed;
  close(): Promise<void>;
}

/** What most tests need of a service, wherever it runs. */
export type ServiceUnderTest = Pick<TestApi, "publicUrl" | "request" | "admin" | "token" | "database">;

export interface TestApiOptions {
  /** Settings in addition to those of every test. */
  readonly environment?: Environment | (() => Promise<Environment>);
  /** Also runs a worker on the same database, in its own Temporal namespace. The worker's clock cannot be advanced. */
  readonly worker?: boolean;
  /** Creates the database, if not on the run's server; dropped at the end. */
  readonly database?: () => Promise<TestDatabase>;
}

/** The machine's clock, also while a test replaces `Date.now`: a shared api must not notice. */
const systemNow = Date.now.bind(Date);

function testClock(): TestClock {
  let offset = 0;
  return {
    now: () => systemNow() + offset,
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
    SIGNET_DATABASE_DIRECT_URL: database.directUrl,
    TEMPORAL_ADDRESS: inject("temporalAddress"),
    SIGNET_KEK: randomBytes(32).toString("base64"),
    ...checkpointSettings(),
    SIGNET_PEPPER: randomBytes(32).toString("base64"),
    SIGNET_OPERATOR_TOKEN: randomBytes(32).toString("hex"),
  };
}

/** Imports the worker only if needed, because Temporal's worker is a large library. */
async function startWorker(options: WorkerProcessOptions): Promise<WorkerProcess> {
  const { startTestWorker } = await import("./in-process-worker.ts");
  return await startTestWorker(options);
}

/** Starts an api process on its own database; close it at the end. */
async function startTestApi(options: TestApiOptions): Promise<StartedApi> {
  const database = await (options.database ?? createTestDatabase)();
  const environment = {
    ...(await testEnvironment(database)),
    ...(options.worker === true ? { TEMPORAL_NAMESPACE: await testNamespace() } : {}),
    ...(typeof options.environment === "function" ? await options.environment() : options.environment),
  };
  const config = loadConfig(environment);
  const temporalAddress = inject("temporalAddress");
  const lines: string[] = [];
  const requests = new RequestTrail();
  const forget = (): void => void lines.splice(0);
  const observed: Observed = { name: "the api", log: () => lines.join(""), requests, forget };
  observe(observed);
  const log = createLogger({ level: "trace", destination: { write: (line) => void lines.push(line) } });
  const clock = testClock();
  const ready = { ...config, databaseUrl: config.databaseUrl ?? database.url, temporalAddress };
  const running: ApiProcess = await startApi({
    config: ready,
    log,
    clock,
  });
  const worker = options.worker === true ? await startWorker({ config: ready, log }) : undefined;
  const operatorToken = config.operatorToken ?? "";
  const adminUrl = `http://127.0.0.1:${running.adminAddress.port}`;

  const api: StartedApi = {
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
    request: async (path, init) => await unlessStale(async () => await api.requestOnce(path, init)),
    requestOnce: async (path, init) => await requests.send(config.publicUrl + path, init),
    admin: async (method, path, body) =>
      await requests.send(`${adminUrl}/admin/v1${path}`, {
        method,
        headers: {
          authorization: `Bearer ${operatorToken}`,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    token: async (parameters) =>
      await api.request("/v1/auth/token", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(parameters),
      }),
    observed,
    close: async () => {
      await worker?.close();
      await running.close();
      await database.drop();
    },
  };
  return api;
}

function provide(start: () => Promise<StartedApi>): OwnApi {
  const started = useStarted("the api", start);
  return new Proxy({} as OwnApi, {
    get: (_target, member) => Reflect.get(started.current, member) as unknown,
  });
}

/**
 * Provides an api process of its own to the calling file or `describe`. Use its members in tests and later hooks. A file
 * that needs only HTTP and the default settings shares one: {@link useSharedApi}.
 */
export function useTestApi(options: TestApiOptions = {}): OwnApi {
  return provide(async () => await startTestApi(options));
}

/** The shared apis of this vitest process, without and with a worker. */
const shared = new Map<boolean, StartedApi>();

/** Starts the shared api for the first file; later files get the same one. */
async function joinSharedApi(worker: boolean): Promise<StartedApi> {
  const joined = shared.get(worker);
  const api = joined ?? (await startTestApi({ worker }));
  shared.set(worker, api);
  if (joined !== undefined) {
    observe(api.observed);
  }
  // It ends with the process, by a signal from vitest, and its database with the run's server.
  return { ...api, close: async () => await Promise.resolve() };
}

/**
 * Provides the api that the files of this vitest process share, with a worker or without. Each file creates its own
 * tenants and expects those of others. Use {@link useTestApi} in a file that needs other settings, advances the clock,
 * reads the log or whole tables, changes keys or limits of the service, or disturbs the database.
 */
export function useSharedApi({ worker = false }: Pick<TestApiOptions, "worker"> = {}): TestApi {
  return provide(async () => await joinSharedApi(worker));
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
