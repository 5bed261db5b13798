/** Runs the engine's statements under its roles, and as a superuser, who bypasses row-level security. */
import { randomBytes } from "node:crypto";
import { Client, type QueryConfig } from "pg";
import { pino } from "pino";
import { createPool, type Queryable, type ServiceRole } from "../../../src/database/pool.ts";
import {
  type AttemptKey,
  loadForAttempt,
  recordInFlight,
  recordOutcomes,
} from "../../../src/database/repositories/webhooks/attempts.ts";
import { insertEvents, type NewEvent } from "../../../src/database/repositories/webhooks/events.ts";
import { systemClock } from "../../../src/domain/clock.ts";
import { newId } from "../../../src/domain/ids.ts";
import { foldDeliveryChanges } from "../../../src/webhooks/engine/delivery-counts.ts";
import { withClient } from "../environment/postgres.ts";
import type { World } from "../environment/world.ts";
import { cpuSeconds } from "../measure/process-tree.ts";
import { round } from "../report/measurement.ts";
import type { Bench } from "./bench.ts";
import { PAYLOAD_BYTES } from "./run.ts";

const LIST = 64;
const LISTS = 400;
const HOUR_MS = 3_600_000;
/** About a second at saturation, in which a worker folds once. */
const LISTS_PER_FOLD = 16;
const COUNTING_ROUNDS = 5;

interface Target {
  readonly endpointId: string;
  readonly tenantId: string;
}

type Lists = readonly (readonly AttemptKey[])[];

/** Returns the CPU-seconds of one session per 1,000 rows. The first quarter of the lists warms up. */
async function measure<Item>(
  { world, role }: Session,
  items: readonly Item[],
  work: (client: Client, item: Item) => Promise<unknown>,
): Promise<number> {
  const client = new Client({
    connectionString: world.adminDatabaseUrl,
    options: role === undefined ? "-c TimeZone=UTC" : `-c role=${role} -c TimeZone=UTC`,
  });
  await client.connect();
  try {
    const { rows } = await client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
    const used = (): number => cpuSeconds({ session: rows[0]?.pid ?? 0 })["session"] ?? Number.NaN;
    const warm = Math.floor(items.length / 4);
    for (const item of items.slice(0, warm)) {
      await work(client, item);
    }
    const before = used();
    for (const item of items.slice(warm)) {
      await work(client, item);
    }
    return round(((used() - before) / ((items.length - warm) * LIST)) * 1_000, 4);
  } finally {
    await client.end();
  }
}

interface Session {
  readonly world: World;
  /** Undefined means the superuser. */
  readonly role: ServiceRole | undefined;
}

function newEvents(targets: readonly Target[], now: Date): NewEvent[] {
  return Array.from({ length: LIST }, (_, index) => {
    const target = targets[index % targets.length];
    const endpointId = target?.endpointId ?? "";
    return {
      id: newId("event", now.getTime(), randomBytes),
      tenantId: target?.tenantId ?? "",
      type: "bench.type_00",
      content: randomBytes(PAYLOAD_BYTES),
      sourceId: null,
      occurredAt: now,
      keys: [],
      deliveries: [{ id: newId("delivery", now.getTime(), randomBytes), endpointId, state: "QUEUED" }],
    };
  });
}

/** Claims all queued deliveries, as a dispatcher would. */
async function claimAll(world: World): Promise<Lists> {
  return await withClient(world.adminDatabaseUrl, async (client) => {
    const carrier = newId("batch", Date.now(), randomBytes);
    const { rows } = await client.query<{ id: string; epoch: number }>(
      `UPDATE deliveries SET carrier = $1, claimed_at = now() WHERE carrier IS NULL AND state = 'QUEUED'
       RETURNING id, epoch`,
      [carrier],
    );
    await client.query("VACUUM (ANALYZE) events, deliveries");
    const keys = rows.map(({ id, epoch }) => ({ deliveryId: id, carrier, epoch, attempt: 1 }));
    return Array.from({ length: Math.floor(keys.length / LIST) }, (_, list) =>
      keys.slice(list * LIST, (list + 1) * LIST),
    );
  });
}

/** @param responseBody a text is stored in a row of the attempt, `null` with the delivery */
async function recordList(
  db: Queryable,
  keys: readonly AttemptKey[],
  tenantId: string,
  responseBody: string | null = "",
): Promise<void> {
  const now = new Date();
  await recordOutcomes(
    db,
    keys.map((key) => ({
      ...key,
      attemptId: newId("attempt", now.getTime(), randomBytes),
      tenantId,
      cycle: 1,
      startedAt: now,
      durationMs: 5,
      status: 200,
      error: null,
      responseBody,
      nextState: "DELIVERED",
      nextAttemptAt: null,
      endedAt: now,
      expiresAt: null,
      leaves: false,
    })),
  );
}

/** Measures ingest, load and record, as the service's roles or as the superuser. */
async function measureStatements(
  world: World,
  targets: readonly Target[],
  as: "roles" | "superuser",
): Promise<Readonly<Record<string, number>>> {
  const session = (role: ServiceRole): Session => ({ world, role: as === "roles" ? role : undefined });
  const now = new Date();
  const events = Array.from({ length: LISTS }, () => newEvents(targets, now));
  const times = {
    now,
    keysAfter: new Date(now.getTime() - HOUR_MS),
    signedKeysAfter: new Date(now.getTime() - HOUR_MS),
    expiresAt: new Date(now.getTime() + HOUR_MS),
  };
  const ingest = await measure(session("signet_ingest"), events, async (client, list) => {
    await insertEvents(client, list, times);
  });
  const lists = await claimAll(world);
  const load = await measure(session("signet_worker"), lists, async (client, keys) => {
    await loadForAttempt(client, keys);
  });
  const tenantId = targets[0]?.tenantId ?? "";
  const record = await measure(session("signet_worker"), lists, async (client, keys) => {
    await recordList(client, keys, tenantId);
  });
  return { ingest, load, record };
}

/** Measures attempt rows alone, in lists of the same length. */
async function measureAttemptRows(world: World, tenantId: string): Promise<number> {
  const lists = Array.from({ length: LISTS }, () => Array.from({ length: LIST }, () => 0));
  return await measure({ world, role: "signet_worker" }, lists, async (client, list) => {
    const now = new Date();
    await recordInFlight(
      client,
      list.map(() => ({
        attemptId: newId("attempt", now.getTime(), randomBytes),
        deliveryId: newId("delivery", now.getTime(), randomBytes),
        tenantId,
        cycle: 1,
        attempt: 1,
        startedAt: now,
        leaseUntil: now,
      })),
    );
  });
}

/** What the statements append for the counts, in ingest and in first attempts that deliver. */
const COUNTING = /INSERT INTO delivery_changes.*?GROUP BY (?:1, 2, 3, 4, 5|1, 3)\b/su;

/** Sends statements as they would be without counts. Their parameters remain. */
function withoutCounts(client: Client): Queryable {
  const query = async (statement: QueryConfig): Promise<unknown> => {
    const text = statement.text.replace(COUNTING, (counting) => {
      const parameters = counting.match(/\$\d+::\w+/gu) ?? [];
      return `SELECT ${["1", ...parameters].join(", ")}`;
    });
    if (text === statement.text) {
      throw new Error(`the statement ${statement.name} counts nothing`);
    }
    return await client.query({ ...statement, name: `${statement.name}-without-counts`, text });
  };
  return { query } as Queryable;
}

/** Returns how many CPU-seconds a session has used. */
async function sessionMeter(db: Queryable): Promise<() => number> {
  const { rows } = await db.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
  return () => cpuSeconds({ session: rows[0]?.pid ?? 0 })["session"] ?? Number.NaN;
}

function ownCpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

/**
 * Measures ingest and outcomes with and without counts, in turns, and the fold once a second.
 *
 * @returns CPU-seconds per 1,000 deliveries: of the statements' session, and of the fold's session and this process
 */
async function measureCounting(world: World, targets: readonly Target[]): Promise<unknown> {
  const log = pino({ level: "silent" });
  const pool = createPool({ url: world.adminDatabaseUrl, role: "signet_worker", max: 1, log });
  const fold = {
    pool,
    clock: systemClock,
    randomBytes,
    deadLetterMs: HOUR_MS,
    keyring: { contentRoot: () => Promise.reject(new Error("no endpoint takes the service's own events")) },
  };
  const client = new Client({ connectionString: world.adminDatabaseUrl, options: "-c TimeZone=UTC" });
  await client.connect();
  const [statementsUsed, foldUsed] = [await sessionMeter(client), await sessionMeter(pool)];
  const turn = async (counts: boolean): Promise<{ statements: number; fold: number }> => {
    const db: Queryable = counts ? client : withoutCounts(client);
    const now = new Date();
    const [expiresAt, keysAfter] = [HOUR_MS, -HOUR_MS].map((ms) => new Date(now.getTime() + ms)) as [
      Date,
      Date,
    ];
    const began = { statements: statementsUsed(), fold: foldUsed() };
    for (let list = 0; list < LISTS; list += 1) {
      const times = { now, keysAfter, signedKeysAfter: keysAfter, expiresAt };
      await insertEvents(db, newEvents(targets, now), times);
    }
    let folding = 0;
    for (const [index, keys] of (await claimAll(world)).entries()) {
      await recordList(db, keys, targets[0]?.tenantId ?? "", null);
      if (counts && index % LISTS_PER_FOLD === 0) {
        const before = ownCpuSeconds();
        await foldDeliveryChanges(fold);
        folding += ownCpuSeconds() - before;
      }
    }
    const perThousand = 1_000 / (LISTS * LIST);
    return {
      statements: (statementsUsed() - began.statements) * perThousand,
      fold: (foldUsed() - began.fold + folding) * perThousand,
    };
  };
  try {
    await turn(true);
    const turns: Record<"without" | "with" | "fold", number[]> = { without: [], with: [], fold: [] };
    for (let number = 0; number < COUNTING_ROUNDS; number += 1) {
      turns.without.push((await turn(false)).statements);
      const counted = await turn(true);
      turns.with.push(counted.statements);
      turns.fold.push(counted.fold);
    }
    return Object.fromEntries(
      Object.entries(turns).map(([name, values]) => [
        name,
        { mean: round(values.reduce((sum, value) => sum + value, 0) / values.length, 4), values },
      ]),
    );
  } finally {
    await client.end();
    await pool.end();
  }
}

/** Needs PostgreSQL on this machine, because it reads the CPU time of its processes. */
export async function measureDatabaseFeatures(bench: Bench): Promise<Readonly<Record<string, unknown>>> {
  if (bench.stack.postgres.process === undefined) {
    return {};
  }
  const world = await bench.world({}, "features");
  await bench.tenTenants(world);
  await world.stop();
  const targets = await withClient(world.adminDatabaseUrl, async (client) => {
    const { rows } = await client.query<Target>(
      `SELECT id AS "endpointId", tenant_id AS "tenantId" FROM endpoints WHERE state = 'ACTIVE'`,
    );
    return rows;
  });
  return {
    row_level_security: {
      with: await measureStatements(world, targets, "roles"),
      without: await measureStatements(world, targets, "superuser"),
    },
    attempt_rows: await measureAttemptRows(world, targets[0]?.tenantId ?? ""),
    counting: await measureCounting(world, targets),
  };
}
