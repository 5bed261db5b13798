/** Connection pools, one per database role, so that PostgreSQL enforces what each piece of code may access. */
import { type ClientBase, Pool, type PoolClient, type PoolConfig, types } from "pg";
import type { Logger } from "pino";
import { AbandonedBackends } from "./abandoned-backends.ts";
import {
  ANSWER_MARGIN_MS,
  BoundedClient,
  type BoundedClientConfig,
  CONNECT_TIMEOUT_MS,
  STATEMENT_TIMEOUT_MS,
} from "./bounded-client.ts";
import { DatabaseBusyError, repeatContended } from "./errors.ts";
import { createInstantParser } from "./instants.ts";
import { POOL_IDLE_MS, roleSettings, type ServiceRole } from "./role-settings.ts";
import { within } from "#runtime/within.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

/** A pool, or a client inside a transaction. */
export type Queryable = Pick<ClientBase, "query">;

export type { Pool, PoolClient };
export { SERVICE_ROLES, type ServiceRole } from "./role-settings.ts";

// bigint columns hold counts far below 2^53.
types.setTypeParser(types.builtins.INT8, Number);
// A `date` is a partition key, `YYYY-MM-DD`. As a Date it would depend on the time zone.
types.setTypeParser(types.builtins.DATE, (text) => text);
types.setTypeParser(types.builtins.TIMESTAMPTZ, createInstantParser());

export interface PoolOptions {
  readonly url: string;
  readonly role: ServiceRole;
  /** Maximum number of connections. */
  readonly max: number;
  readonly log: Logger;
  /** Whether `url` may lead to a pooler that lends its sessions by the transaction. */
  readonly sharesSessions?: boolean;
  /** The server's limit per statement, in milliseconds; 8,000 by default. The answer may take 2 s longer. */
  readonly statementMs?: number;
}

/** A role's connections in this process. */
export interface PoolStatistics {
  readonly role: ServiceRole;
  /** Maximum number of connections. */
  readonly size: number;
  readonly total: number;
  readonly idle: number;
  /** Number of callers that wait for a connection. */
  readonly waiting: number;
}

const openPools = new Map<Pool, ServiceRole>();

function forgetEnded(): void {
  for (const pool of openPools.keys()) {
    if (pool.ended) {
      openPools.delete(pool);
    }
  }
}

/** Returns the open pools of this process, one row per role. */
export function poolStatistics(): readonly PoolStatistics[] {
  forgetEnded();
  const byRole = new Map<ServiceRole, PoolStatistics>();
  for (const [pool, role] of openPools) {
    const before = byRole.get(role) ?? { role, size: 0, total: 0, idle: 0, waiting: 0 };
    byRole.set(role, {
      role,
      size: before.size + (pool.options.max ?? 0),
      total: before.total + pool.totalCount,
      idle: before.idle + pool.idleCount,
      waiting: before.waiting + pool.waitingCount,
    });
  }
  return [...byRole.values()];
}

/** Maximum number of callers that wait for a connection. Each wait ends after {@link CONNECT_TIMEOUT_MS}. */
const WAITING_MAX = 1_000;
/** Time for holders to return their connections when the pool ends, in milliseconds. */
const END_MS = 5_000;

/** A statement in one of the driver's forms: text with values, or an object. */
type StatementArguments = readonly unknown[];

/** Returns the name under which a connection prepares a statement, if it has one. */
function nameOf(statement: unknown): string | undefined {
  const named =
    typeof statement === "object" && statement !== null && "name" in statement ? statement.name : "";
  return typeof named === "string" && named !== "" ? named : undefined;
}

type Connected = (error: Error | undefined, client: PoolClient | undefined, done: () => void) => void;

/** Members of the driver's pool that its types do not show. */
interface Innards {
  readonly _idle: { readonly client: { readonly connection: { readonly parsedStatements: object } } }[];
  readonly _pendingQueue: readonly object[];
}

/** The driver's way to serve callers that wait: it lends the last of the idle connections. */
const lend = Reflect.get(Pool.prototype, "_pulseQueue") as (this: Pool) => void;

/**
 * A pool with a bounded queue and number of backends. Its end does not wait for connections that are not returned.
 *
 * A named statement goes to an idle connection that has planned it, if there is one, and otherwise to the one that was
 * used last. A statement over all days takes PostgreSQL up to 100 ms to plan. Those that run every few seconds thus keep
 * to the same connections, instead of being planned on each.
 */
class BoundedPool extends Pool {
  readonly #open = new Set<PoolClient>();
  readonly #abandoned: AbandonedBackends;
  /** The name of the statement that asks for a connection right now. */
  #asking: string | undefined;
  /** The names of statements that wait for a connection, by the driver's queue. */
  readonly #waiting = new WeakMap<object, string>();

  constructor(options: PoolConfig & BoundedClientConfig) {
    super({ Client: BoundedClient as unknown as NonNullable<PoolConfig["Client"]>, ...options });
    const { connectionString, application_name: name } = options;
    this.#abandoned = new AbandonedBackends(
      { ...(connectionString && { connectionString }), ...(name && { application_name: name }) },
      () => this.#serve(),
    );
    this.on("connect", (client) => {
      this.#open.add(client);
      (client as unknown as BoundedClient).onAbandoned = (pid) => this.#abandoned.add(pid);
    });
    this.on("remove", (client) => this.#open.delete(client));
  }

  /** Overrides the driver's: connections that were given up count until the server has finished with them. */
  protected _isFull(): boolean {
    return this.totalCount + this.#abandoned.count >= (this.options.max ?? 0);
  }

  /** Overrides the driver's, which lends the connection that was used last. */
  protected _pulseQueue(): void {
    this.#serve();
  }

  /** Serves the caller that has waited for the longest time, if a connection is free. */
  #serve(): void {
    const { _idle: idle, _pendingQueue: queue } = this as unknown as Innards;
    const name = queue[0] && this.#waiting.get(queue[0]);
    if (name !== undefined) {
      const at = idle.findLastIndex(({ client }) => name in client.connection.parsedStatements);
      idle.push(...idle.splice(at, at === -1 ? 0 : 1));
    }
    lend.call(this);
  }

  /** Connects as a statement of this name does. */
  async connectFor(name: string): Promise<PoolClient> {
    this.#asking = name;
    return await this.connect();
  }

  override connect(): Promise<PoolClient>;
  override connect(callback: Connected): void;
  override connect(callback?: Connected): Promise<PoolClient> | void {
    const name = this.#asking;
    this.#asking = undefined;
    if (this.waitingCount < WAITING_MAX) {
      const before = this.waitingCount;
      const connected = callback === undefined ? super.connect() : super.connect(callback);
      const { _pendingQueue: queue } = this as unknown as Innards;
      const item = queue[before];
      if (name !== undefined && item !== undefined) {
        this.#waiting.set(item, name);
      }
      return connected;
    }
    const error = new DatabaseBusyError(`${WAITING_MAX} requests already wait for a database connection`);
    return callback === undefined ? Promise.reject(error) : callback(error, undefined, () => undefined);
  }

  // Overrides all of the driver's overloads, except those with a callback and those of streams.
  override query(...statement: StatementArguments): never {
    return repeatContended(async () => await this.ask(statement)) as never;
  }

  /** Runs a statement once. */
  protected async ask(statement: StatementArguments): Promise<unknown> {
    const query = super.query.bind(this) as (...values: StatementArguments) => Promise<unknown>;
    this.#asking = nameOf(statement[0]);
    return await query(...statement);
  }

  override end(): Promise<void>;
  override end(callback: () => void): void;
  override end(callback?: () => void): Promise<void> | void {
    const timer = setTimeout(() => {
      this.#open.forEach((client) => client.connection.stream.destroy());
    }, END_MS).unref();
    this.#abandoned.stop();
    const ended = super.end().finally(() => clearTimeout(timer));
    return callback === undefined ? ended : void ended.then(callback);
  }
}

/** Prepares no statement by name: the session that holds it may not be the next transaction's. */
class SharingClient extends BoundedClient {
  override query(...[statement, ...others]: StatementArguments): never {
    const unnamed =
      nameOf(statement) === undefined ? statement : { ...(statement as object), name: undefined };
    return super.query(unnamed, ...others);
  }
}

/**
 * A pool behind a pooler that lends its sessions by the transaction. Each transaction names its role itself, also that of
 * a single statement, in the same round trip. A statement without it would have the login's own rights: none.
 */
class SharingPool extends BoundedPool {
  readonly #begin: string;

  constructor(options: PoolConfig & BoundedClientConfig, begin: string) {
    super({
      ...options,
      pipeline: true,
      Client: SharingClient as unknown as NonNullable<PoolConfig["Client"]>,
    });
    this.#begin = begin;
  }

  protected override async ask(statement: StatementArguments): Promise<unknown> {
    const client = await this.connect();
    const ask = client.query.bind(client) as (...values: StatementArguments) => unknown;
    // The driver sends all three at once. After a failure, COMMIT rolls back.
    const [begun, answer, ended] = await Promise.allSettled([
      client.query(this.#begin),
      new Promise((resolve, reject) => {
        ask(...statement, (error: Error | null, result: unknown) =>
          error ? reject(error) : resolve(result),
        );
      }),
      client.query("COMMIT"),
    ]);
    const failed = [begun, answer, ended].find(({ status }) => status === "rejected");
    client.release(ended.status === "rejected");
    if (failed?.status === "rejected") {
      throw failed.reason;
    }
    return answer.status === "fulfilled" ? answer.value : undefined;
  }
}

/** Connects for a transaction with a named statement: to an idle connection that has planned it, if there is one. */
export async function connectFor(pool: Pool, name: string): Promise<PoolClient> {
  return pool instanceof BoundedPool ? await pool.connectFor(name) : await pool.connect();
}

/** How a transaction begins, by pool. */
const beginnings = new WeakMap<Pool, string>();

/** Returns the statements that begin a transaction with the pool's role. */
export function beginStatement(pool: Pool, mode: "" | " READ ONLY" = ""): string {
  const settings = beginnings.get(pool);
  return settings === undefined ? `BEGIN${mode}` : `BEGIN${mode}; ${settings}`;
}

/** Some statements name days, and a connection never forgets a statement that it has prepared. */
const LIFETIME_SECONDS = 86_400;

/**
 * Creates a pool whose connections act as `role` from their first statement. The settings follow the login in one round
 * trip: a pooler rejects them as parameters of the connection.
 */
export function createPool(options: PoolOptions): Pool {
  const { role, log } = options;
  const pool = options.sharesSessions === true ? openSharingPool(options) : openOwnPool(options);
  forgetEnded();
  openPools.set(pool, role);
  // A broken idle connection must not end the process. The next query opens a new one.
  pool.on("error", (error) => log.warn({ err: error, role }, "database connection lost"));
  // The same applies to a held connection without a pending query. Its holder gets the error at the next query.
  pool.on("connect", (client) => client.on("error", () => undefined));
  return pool;
}

function openOwnPool({ role, statementMs = STATEMENT_TIMEOUT_MS, ...options }: PoolOptions): Pool {
  const settings = roleSettings(role, statementMs, "session");
  return new BoundedPool({
    ...clientOptions({ ...options, statementMs }),
    application_name: role,
    // The pool waits for it, which its types do not say.
    // oxlint-disable-next-line typescript/no-misused-promises
    onConnect: async (client) => {
      await within(machineTimers, CONNECT_TIMEOUT_MS, client.query(settings));
    },
  });
}

function openSharingPool({ role, statementMs = STATEMENT_TIMEOUT_MS, ...options }: PoolOptions): Pool {
  const settings = roleSettings(role, statementMs, "transaction");
  // One name for all roles: a pooler would change it, in another round trip, whenever another role gets a session.
  const name = { application_name: "signet" };
  const pool = new SharingPool(
    { ...clientOptions({ ...options, statementMs }), ...name },
    `BEGIN; ${settings}`,
  );
  beginnings.set(pool, settings);
  return pool;
}

function clientOptions({
  url,
  max,
  statementMs,
}: Pick<PoolOptions, "url" | "max"> & { readonly statementMs: number }): PoolConfig & BoundedClientConfig {
  return {
    connectionString: url,
    max,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    answerMs: statementMs + ANSWER_MARGIN_MS,
    maxLifetimeSeconds: LIFETIME_SECONDS,
    idleTimeoutMillis: POOL_IDLE_MS,
  };
}
