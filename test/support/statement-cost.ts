/**
 * What statements cost, without a clock: the rows and pages that their plans touch, as PostgreSQL counts them
 * (auto_explain). They run as the service runs them: with its roles, row-level security and plans.
 */
import type { ServiceRole } from "#database/role-settings.ts";
import { createPool, type Pool, type PoolClient, type Queryable } from "#database/pool.ts";
import { createLogger } from "#observability/logger.ts";
import { execute, type TestDatabase } from "./test-database.ts";

interface Plan {
  readonly "Actual Rows"?: number;
  readonly "Actual Loops"?: number;
  readonly "Rows Removed by Filter"?: number;
  readonly "Rows Removed by Join Filter"?: number;
  readonly "Rows Removed by Index Recheck"?: number;
  readonly Plans?: readonly Plan[];
}

const PAGES = [
  "Shared Hit Blocks",
  "Shared Read Blocks",
  "Local Hit Blocks",
  "Local Read Blocks",
  "Temp Read Blocks",
  "Temp Written Blocks",
];

/** The rows that a node and those below it return or leave out, over all its loops. */
function rowsOf(plan: Plan): number {
  const each =
    (plan["Actual Rows"] ?? 0) +
    (plan["Rows Removed by Filter"] ?? 0) +
    (plan["Rows Removed by Join Filter"] ?? 0) +
    (plan["Rows Removed by Index Recheck"] ?? 0);
  return (plan.Plans ?? []).reduce((sum, below) => sum + rowsOf(below), each * (plan["Actual Loops"] ?? 0));
}

/** A node's pages include those of the nodes and functions below it. */
function pagesOf(plan: Readonly<Record<string, unknown>>): number {
  return PAGES.reduce((sum, name) => sum + Number(plan[name] ?? 0), 0);
}

const SETTINGS: Readonly<Record<string, string>> = {
  session_preload_libraries: "auto_explain",
  "auto_explain.log_min_duration": "0",
  "auto_explain.log_analyze": "on",
  "auto_explain.log_buffers": "on",
  "auto_explain.log_timing": "off",
  "auto_explain.log_format": "json",
  "auto_explain.log_level": "notice",
};

/** Below this, one more level of an index would count as growth. */
const LEAST = 10;

/** A statement without a plan. */
const NO_PLAN = "SHOW role";

/** Makes PostgreSQL report every plan to the sessions that begin from now on. */
async function reportPlans({ name, adminUrl }: Omit<TestDatabase, "drop">): Promise<void> {
  // The server knows the other settings once a session has loaded the library.
  const all = Object.entries(SETTINGS).map(
    ([key, value]) => `ALTER DATABASE ${name} SET ${key} = '${value}'`,
  );
  await execute(adminUrl, `LOAD 'auto_explain'; ${all.join("; ")}`);
}

/** Sums the cost of the statements of its pools. */
export class StatementCost {
  readonly #url: string;
  readonly #pools = new Map<ServiceRole, Pool>();
  #cost = 0;

  private constructor(url: string) {
    this.#url = url;
  }

  static async of(database: Omit<TestDatabase, "drop">): Promise<StatementCost> {
    await reportPlans(database);
    return new StatementCost(database.url);
  }

  /** Returns the pool of a role, of one connection. */
  pool(role: ServiceRole): Pool {
    const known = this.#pools.get(role);
    if (known !== undefined) {
      return known;
    }
    const log = createLogger({ level: "silent" });
    // A statement whose cost is measured may take as long as it likes.
    const pool = createPool({ url: this.#url, role, max: 1, log, statementMs: 120_000 });
    pool.on("connect", (client) => {
      client.on("notice", ({ message = "" }) => this.#take(message));
    });
    this.#pools.set(role, pool);
    return pool;
  }

  #take(message: string): void {
    const [, json] = /^duration: [\d.]+ ms {2}plan:\n(.*)$/s.exec(message) ?? [];
    if (json === undefined) {
      return;
    }
    const { Plan: plan } = JSON.parse(json) as { readonly Plan: Readonly<Record<string, unknown>> };
    this.#cost += rowsOf(plan) + pagesOf(plan);
  }

  /** Returns the rows and pages of the statements of `work`, which all go through `db`; at least {@link LEAST}. */
  async measure(db: Queryable, work: () => Promise<unknown>): Promise<number> {
    // A plan is reported when its portal closes: within a transaction, at the next statement.
    await db.query(NO_PLAN);
    this.#cost = 0;
    await work();
    await db.query(NO_PLAN);
    return Math.max(LEAST, this.#cost);
  }

  /** Runs `work` in a transaction that ends without a trace, for a tenant if given. */
  async withoutTrace<T>(
    role: ServiceRole,
    tenantId: string | undefined,
    work: (client: PoolClient) => Promise<T>,
  ): Promise<T> {
    const client = await this.pool(role).connect();
    try {
      await client.query("BEGIN");
      if (tenantId !== undefined) {
        await client.query("SELECT set_config('app.tenant_id', $1, true)", [tenantId]);
      }
      return await work(client);
    } finally {
      await client.query("ROLLBACK");
      client.release();
    }
  }

  async end(): Promise<void> {
    await Promise.all([...this.#pools.values()].map(async (pool) => await pool.end()));
  }
}
