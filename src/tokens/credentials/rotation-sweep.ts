/**
 * The sweep of the rotation. It stores the states that follow from the times, writes to the compliance log and raises
 * alerts. The token endpoint does not depend on it: without the sweep, secrets begin and end at the same times.
 */
import { appendEntryNow } from "#compliance/append-entry.ts";
import type { EntryServices } from "#compliance/entry.ts";
import type { Pool, PoolClient } from "#database/pool.ts";
import { CREDENTIAL_ENDED, insertNotices } from "#database/repositories/tokens/revocation-notices.ts";
import {
  countOverdue,
  type EndedVersion,
  endReplaced,
  endRescues,
  retireVersions,
  setEndIndexes,
  setNextAlerts,
  type SweptVersion,
  takeDeliveries,
  takeDue,
  takeEnded,
  takeOverdue,
} from "#database/repositories/tokens/rotation-sweep.ts";
import { isSigningKeyOlder } from "#database/repositories/webhooks/census.ts";
import { transaction } from "#database/transaction.ts";
import type { Clock } from "#domain/clock.ts";
import {
  overdueAlertAfter,
  type Retirement,
  retirementOf,
  type RotationRules,
} from "#domain/secret-version.ts";
import type { Logger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import { SIGNING_AGE_MAX_MS } from "../signing-keys/lifecycle.ts";
import { type AppendRotationEntry, createRotationLog, type RotationEntry } from "./rotation-log.ts";

const DAY_MS = 86_400_000;
const MEASURE_MS = 60_000;
/** Versions per transaction, which locks the head of the compliance log until it commits. */
const BATCH = 50;
/** Limits one run. The next run continues. */
const ROUNDS_MAX = 200;

/** Numbers of changes stored by one run. */
export interface Swept {
  readonly due: number;
  readonly retired: number;
  readonly rescues_ended: number;
  readonly delivered: number;
  readonly overdue: number;
  readonly ended: number;
}

export interface RotationSweepOptions extends EntryServices {
  /** Role signet_rotator. */
  readonly pool: Pool;
  readonly rules: RotationRules;
  readonly log: Logger;
}

type Sweep = RotationSweepOptions & { readonly append: AppendRotationEntry };

/** Runs one sweep. It may be interrupted at any point, overlap with another run, and be repeated. */
export async function sweepRotation(options: RotationSweepOptions): Promise<Swept> {
  const sweep = { ...options, append: createRotationLog("sweep", options) };
  const swept = {
    due: await inBatches(sweep, reportDue),
    retired: await inBatches(sweep, retire),
    rescues_ended: await inBatches(sweep, closeRescues),
    delivered: await inBatches(sweep, reportDeliveries),
    overdue: await inBatches(sweep, alertOverdue),
    ended: await inBatches(sweep, endCredentials),
  };
  await measureOverdue(options);
  return swept;
}

/** Sets the metric of overdue credentials. */
async function measureOverdue({ pool, clock }: Pick<RotationSweepOptions, "pool" | "clock">): Promise<void> {
  metrics.overdueRotations.set({ kind: "credential" }, await countOverdue(pool, clock.now()));
}

type Step = (db: PoolClient, sweep: Sweep) => Promise<number>;

/** Runs small transactions until one is not full. Returns the total. */
async function inBatches(sweep: Sweep, step: Step): Promise<number> {
  let count = 0;
  for (let round = 0; round < ROUNDS_MAX; round += 1) {
    const done = await transaction(sweep.pool, async (db) => await step(db, sweep));
    count += done;
    if (done < BATCH) {
      break;
    }
  }
  return count;
}

function entryOf(
  { tenant_id: tenantId, credential_id: credentialId, version }: SweptVersion,
  type: RotationEntry["type"],
  details: Readonly<Record<string, string | number>> = {},
): RotationEntry {
  return { type, tenantId, credentialId, details: { version, ...details } };
}

async function reportDue(db: PoolClient, { clock, append }: Sweep): Promise<number> {
  const due = await takeDue(db, clock.now(), BATCH);
  for (const version of due) {
    await append(db, entryOf(version, "credential.rotation_due"));
  }
  return due.length;
}

function withRetirement(version: EndedVersion, sweep: Sweep): EndedVersion & { retirement: Retirement } {
  const nowMs = sweep.clock.now();
  const times = {
    state: version.state,
    issued_at: version.issued_at.getTime(),
    due_at: null,
    retire_by: version.retire_by?.getTime() ?? null,
    superseded_at: version.superseded_at?.getTime() ?? null,
    last_used_at: version.last_used_at?.getTime() ?? null,
    retired_at: null,
    retired_reason: null,
  };
  // The SQL and this rule must agree. If they do not, nothing is retired.
  const retirement = retirementOf(times, sweep.rules, nowMs);
  if (retirement === undefined) {
    throw new Error(`${version.credential_id} version ${version.version} has not ended`);
  }
  return { ...version, retirement };
}

async function retire(db: PoolClient, sweep: Sweep): Promise<number> {
  const { clock, rules, append } = sweep;
  const { quietMs } = rules;
  const ended = (await takeEnded(db, { nowMs: clock.now(), quietMs }, BATCH)).map((version) =>
    withRetirement(version, sweep),
  );
  await retireVersions(db, ended);
  for (const version of ended) {
    await append(db, entryOf(version, "credential.retired", { reason: version.retirement.reason }));
  }
  return ended.length;
}

async function closeRescues(db: PoolClient, { clock, rules }: Sweep): Promise<number> {
  const { rescueMs } = rules;
  return (await endRescues(db, { nowMs: clock.now(), rescueMs }, BATCH)).length;
}

async function reportDeliveries(db: PoolClient, { clock, append }: Sweep): Promise<number> {
  const delivered = await takeDeliveries(db, { nowMs: clock.now(), everyMs: DAY_MS }, BATCH);
  for (const version of delivered) {
    const count = version.delivered_count;
    await append(db, entryOf(version, "credential.successor_delivered", { count }));
  }
  return delivered.length;
}

async function alertOverdue(db: PoolClient, { clock, append, log }: Sweep): Promise<number> {
  const nowMs = clock.now();
  const overdue = await takeOverdue(db, nowMs, BATCH);
  await setNextAlerts(
    db,
    overdue.map((version) => ({
      ...version,
      nextAlertAt: overdueAlertAfter(version.due_at.getTime(), nowMs),
    })),
  );
  for (const version of overdue) {
    const days = Math.floor((nowMs - version.due_at.getTime()) / DAY_MS);
    log.warn(
      {
        tenant_id: version.tenant_id,
        credential_id: version.credential_id,
        version: version.version,
        days_overdue: days,
      },
      "the rotation of a credential is overdue: its client does not use the successor yet",
    );
    await append(db, entryOf(version, "credential.rotation_overdue", { days }));
  }
  return overdue.length;
}

/**
 * Records the ends of replaced credentials. Nothing is revoked: an ended credential gets no tokens, and its last ones
 * live on for up to 15 minutes.
 */
async function endCredentials(db: PoolClient, sweep: Sweep): Promise<number> {
  const ended = await endReplaced(db, sweep.clock.now(), BATCH);
  const by = { actor: "system:rotation", reason: "replaced" } as const;
  await insertNotices(
    db,
    ended.map(({ id: target, tenant_id, ends_at: at }) => ({
      ...by,
      kind: CREDENTIAL_ENDED,
      target,
      tenant_id,
      at,
    })),
  );
  const ends = [];
  for (const { id, tenant_id: tenant } of ended) {
    const { index } = await appendEntryNow(
      db,
      { ...by, type: "credential.ended", tenant, target: id },
      sweep,
    );
    ends.push({ id, index });
  }
  await setEndIndexes(db, ends);
  return ended.length;
}

export interface OverdueRotationsOptions {
  /** Role signet_rotator. */
  readonly rotatorPool: Pool;
  /** Role signet_operator. */
  readonly operatorPool: Pool;
  readonly clock: Clock;
}

/** Returns the job that measures overdue rotations of credentials and signing keys. */
export function overdueRotationsJob({
  rotatorPool,
  operatorPool,
  clock,
}: OverdueRotationsOptions): UpkeepJob {
  return {
    name: "overdue rotations",
    everyMs: MEASURE_MS,
    run: async () => {
      await measureOverdue({ pool: rotatorPool, clock });
      const overdue = await isSigningKeyOlder(operatorPool, new Date(clock.now() - SIGNING_AGE_MAX_MS));
      metrics.overdueRotations.set({ kind: "signing_key" }, overdue ? 1 : 0);
    },
  };
}
