/** The checks of `signet doctor`: each reports what it found, or the fault and its fix. */
import { type Client, isGrpcServiceError } from "@temporalio/client";
import type { CheckpointSink } from "#compliance/checkpoint-sink.ts";
import type { Keyring } from "#crypto/keyring.ts";
import { CellClock, CLOCK_SKEW_MAX_MS, openDatabaseClock } from "#database/database-clock.ts";
import { readSchemaState, type SchemaState } from "#database/migration-files.ts";
import type { Pool } from "#database/pool.ts";
import { findKnownTenants, readHomeTenants } from "#database/repositories/cells.ts";
import { findAnyDataKey } from "#database/repositories/data-keys.ts";
import { LetterReconciler, UNCARRIED_AFTER_MS } from "#webhooks/engine/letter-reconciler.ts";
import { CLAIM_SETTLES_MS } from "#webhooks/engine/reconciler.ts";
import { isNearlyEmpty, oldestDayOverdueMs, readTableHealth } from "#database/repositories/partitions.ts";
import { KEY_PURPOSES, type KeyPurpose } from "#database/repositories/tokens/signing-keys.ts";
import { countUncounted } from "#database/repositories/webhooks/uncounted-hours.ts";
import { readCensus } from "#database/repositories/webhooks/census.ts";
import { isSchemaError } from "#database/errors.ts";
import {
  countUncarriedLetters,
  findOverdue,
  findRestore,
  readLag,
} from "#database/repositories/webhooks/reconciliation.ts";
import type { Clock } from "#domain/clock.ts";
import { DAY_MS, HOUR_MS } from "#domain/ids.ts";
import { KeyStore } from "#tokens/signing-keys/key-store.ts";
import { SIGNING_AGE_MAX_MS } from "#tokens/signing-keys/lifecycle.ts";
import { CLOCK_SKEW_NOTED_MS } from "#observability/clock-skew.ts";
import type { Logger } from "#observability/logger.ts";
import { checkNamespace } from "#temporal/client.ts";
import { unqueryable } from "#temporal/namespace.ts";
import { failureOf, messageOf } from "#runtime/thrown.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const LAG_MAX_SECONDS = 60;
const TENANTS_CHECKED = 1_000;
const OVERDUE_AFTER_MS = 60_000;
const OVERDUE_SHOWN_MAX = 1_000;

export interface Finding {
  readonly check: string;
  readonly ok: boolean;
  /** The finding; for a fault, also its fix. */
  readonly detail: string;
}

export interface Patient {
  /** signet_worker */
  readonly pool: Pool;
  /** signet_issuer */
  readonly issuer: Pool;
  /** signet_cell, at the home cell; absent in the home cell and without cells. */
  readonly home?: Pool | undefined;
  readonly temporal: Client;
  readonly keyring: Keyring;
  readonly clock: Clock;
  /** Number of whole days for which finished deliveries are kept. */
  readonly retentionDays: number;
  readonly log: Logger;
  /** Names that the processes must resolve: of the database, Temporal, the public address, a proxy. */
  readonly names: readonly string[];
  /** Resolves a name as a connection would; rejects on failure. */
  readonly resolve: (name: string) => Promise<unknown>;
}

/** Longer than for readiness, which is asked again in seconds: this one connects first, perhaps on a busy machine. */
const TEMPORAL_TIMEOUT_MS = 10_000;

/** The schedule purgeExpired runs every hour. */
const DAY_OVERDUE_HOURS = 3;

type Look = Omit<Finding, "check">;

/** What the keys of a purpose sign, and who replaces them. */
const KEYS_OF = {
  access: { sign: "access tokens", rotate: "an api runs" },
  set: { sign: "security events", rotate: "a worker and the schedule rotateSigningKeys run" },
} as const satisfies Record<KeyPurpose, unknown>;

/** The first process of this version that starts makes the key of security events. */
function lookAtKey(
  keys: Pick<KeyStore, "signingKey" | "signingSince">,
  purpose: KeyPurpose,
  nowMs: number,
): Look {
  const { sign, rotate } = KEYS_OF[purpose];
  if (purpose === "set" && keys.signingSince() === 0) {
    return { ok: true, detail: `no key of ${sign} yet` };
  }
  const { kid } = keys.signingKey();
  const ageMs = nowMs - keys.signingSince();
  return ageMs < SIGNING_AGE_MAX_MS
    ? { ok: true, detail: `signing ${sign} with ${kid}` }
    : {
        ok: false,
        detail: `${kid} has signed ${sign} for ${Math.floor(ageMs / DAY_MS)} days: check that ${rotate}`,
      };
}

interface Check<Of = Patient> {
  readonly name: string;
  /** The fix if the check throws. */
  readonly fix: string;
  readonly look: (patient: Of) => Promise<Look>;
}

/** Later migrations are no obstacle: a version goes back to a schema that contains its own. */
function describeSchema({ pending, changed }: SchemaState): Look {
  if (changed !== undefined) {
    return { ok: false, detail: `the schema is another build's: ${changed} differs from what was applied` };
  }
  return {
    ok: true,
    detail:
      pending.length === 0
        ? "reachable, schema up to date"
        : `reachable, ${pending.length} migration${pending.length === 1 ? "" : "s"} will be applied`,
  };
}

/** Whether a check failed because the schema, or Temporal's namespace, lacks something that `signet migrate` will add. */
async function waitsForMigrations(
  error: unknown,
  { pool, temporal }: Outside & Partial<Pick<Patient, "temporal">>,
): Promise<boolean> {
  const lacksAttributes = async (): Promise<boolean> =>
    temporal !== undefined &&
    isGrpcServiceError(error) &&
    (await unqueryable(temporal, temporal.options.namespace).catch(() => [])).length > 0;
  if (!isSchemaError(error) && !(await lacksAttributes())) {
    return false;
  }
  const state = await readSchemaState(pool).catch(() => undefined);
  return state !== undefined && state.pending.length > 0;
}

/** What an edge or a hub with a login of its own depends on. */
export type Outside = Pick<Patient, "names" | "resolve" | "pool">;

const OUTSIDE_CHECKS: readonly Check<Outside>[] = [
  {
    name: "dns",
    fix: "check the resolver of this machine, and the name in the setting",
    look: async ({ names, resolve }) => {
      const outcomes = await Promise.allSettled(names.map(async (name) => await resolve(name)));
      const failed = names.filter((_name, index) => outcomes[index]?.status === "rejected");
      return failed.length === 0
        ? { ok: true, detail: `${names.length} names in the settings resolve` }
        : {
            ok: false,
            detail: `cannot resolve ${failed.join(", ")}: check the resolver of this machine, and the names in the settings`,
          };
    },
  },
  {
    name: "database",
    fix: "check SIGNET_DATABASE_URL (of an edge or a hub, SIGNET_EDGE_DATABASE_URL), and that PostgreSQL runs and accepts this login",
    look: async ({ pool }) => {
      return describeSchema(await readSchemaState(pool));
    },
  },
];

/** Reports what is overdue: as a fault, or as what follows from a restore that no worker has run since. */
async function unlessRestored(
  { pool, clock }: Pick<Patient, "pool" | "clock">,
  overdue: string,
  fix: string,
): Promise<Look> {
  const restored = await findRestore(pool, new Date(clock.now())).catch((error: unknown) => {
    // An older schema has no such column.
    if (isSchemaError(error)) {
      return undefined;
    }
    throw error;
  });
  return restored === undefined
    ? { ok: false, detail: `${overdue}: ${fix}` }
    : {
        ok: true,
        detail: `${overdue}: the database was restored at ${restored.toISOString()}, and workers go on with it once they start`,
      };
}

const CHECKS: readonly Check[] = [
  ...OUTSIDE_CHECKS,
  {
    name: "home cell",
    fix: "check SIGNET_HOME_DATABASE_URL, that PostgreSQL of the home cell accepts this login, and that it was migrated first",
    look: async ({ pool, home }) => {
      if (home === undefined) {
        return { ok: true, detail: "this is the home cell, or the only one" };
      }
      const { tenants } = await readHomeTenants(home, { since: null, after: "", limit: TENANTS_CHECKED });
      const ids = tenants.filter(({ state }) => state !== "ERASED").map(({ id }) => id);
      const known = await findKnownTenants(pool, ids);
      const missing = ids.filter((id) => !known.has(id));
      return missing.length === 0
        ? { ok: true, detail: "reachable, its tenants are known here" }
        : {
            ok: false,
            detail: `${missing.length} of its first ${ids.length} tenants are not known here: check that a worker of this cell runs, and its log for failed upkeep`,
          };
    },
  },
  {
    name: "clock",
    fix: "check the database first",
    look: async ({ pool, home }) => {
      const own = await openDatabaseClock(pool, machineTimers);
      const skews = [{ skewMs: own.skewMs, of: "", than: "the database's" }];
      if (home !== undefined) {
        const { homeSkewMs: skewMs } = new CellClock(own, await openDatabaseClock(home, machineTimers));
        skews.push({ skewMs, of: "the database's clock is ", than: "that of the home cell's" });
      }
      const found = skews.map(({ skewMs, ...names }) => ({ ...names, ms: Math.round(Math.abs(skewMs)) }));
      const [wrong] = found.filter(({ ms }) => ms > CLOCK_SKEW_NOTED_MS);
      return wrong === undefined
        ? { ok: true, detail: found.map(({ of, ms, than }) => `${of}within ${ms} ms of ${than}`).join("; ") }
        : {
            ok: false,
            detail: `${wrong.of}${wrong.ms} ms from ${wrong.than}: run NTP on both machines; beyond ${CLOCK_SKEW_MAX_MS / 1_000} s processes sign nothing`,
          };
    },
  },
  {
    name: "temporal",
    fix: "check TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE; `signet migrate` creates the namespace",
    look: async ({ temporal }) => {
      await checkNamespace(temporal, TEMPORAL_TIMEOUT_MS);
      return { ok: true, detail: `namespace ${temporal.options.namespace} answers` };
    },
  },
  {
    name: "keys",
    fix: "check that SIGNET_KEK is the one that the keys in the database were sealed with",
    look: async ({ pool, issuer, home, keyring, clock, log }) => {
      if (home !== undefined) {
        const tenant = await findAnyDataKey(pool);
        if (tenant !== undefined) {
          await keyring.contentRoot(tenant.data_key, tenant.id);
        }
        return { ok: true, detail: "the tenants' keys open; the home cell signs the tokens" };
      }
      const found = await Promise.all(
        KEY_PURPOSES.map(async (purpose) => {
          const keys = await KeyStore.open({
            db: issuer,
            keyring,
            purpose,
            clock,
            timers: machineTimers,
            log,
          });
          await keys.close();
          return lookAtKey(keys, purpose, clock.now());
        }),
      );
      return { ok: found.every(({ ok }) => ok), detail: found.map(({ detail }) => detail).join("; ") };
    },
  },
  {
    name: "outbox",
    fix: "check the database first",
    look: async ({ pool, clock }) => {
      const { oldestUnattemptedSeconds: seconds } = await readLag(pool, new Date(clock.now()));
      return seconds <= LAG_MAX_SECONDS
        ? { ok: true, detail: `the oldest delivery without an attempt waits for ${seconds.toFixed(1)} s` }
        : await unlessRestored(
            { pool, clock },
            `a delivery has waited ${seconds.toFixed(0)} s for its first attempt`,
            "check that a worker runs and reaches Temporal",
          );
    },
  },
  {
    name: "carriers",
    fix: "check the database first",
    look: async ({ pool, clock }) => {
      const now = clock.now();
      const overdue = await findOverdue(pool, {
        before: new Date(now - OVERDUE_AFTER_MS),
        claimedBefore: new Date(now - CLAIM_SETTLES_MS),
        now: new Date(now),
        limit: OVERDUE_SHOWN_MAX,
      });
      const stuck = overdue.filter((delivery) => !delivery.slow);
      const shown = [...new Set(stuck.map((delivery) => delivery.carrier))].slice(0, 5).join(", ");
      return stuck.length === 0
        ? { ok: true, detail: "no delivery is overdue" }
        : await unlessRestored(
            { pool, clock },
            `${stuck.length} deliveries are overdue, carried by ${shown} …`,
            "a running worker starts new workflows for them within a minute if theirs are gone; signet why says whether one is paused",
          );
    },
  },
  {
    name: "dead letters",
    fix: "check the database and Temporal first",
    look: async ({ pool, temporal, clock, log }) => {
      const differences = await new LetterReconciler({ pool, client: temporal, clock, log }).differences();
      const waiting = await countUncarriedLetters(pool, new Date(clock.now() - UNCARRIED_AFTER_MS));
      const lost = differences.reduce((sum, difference) => sum + difference.lost.length, waiting);
      const ghosts = differences.reduce((sum, difference) => sum + difference.ghosts.length, 0);
      // No fault: releases before 0.4.0 leave some, and doctor runs before an upgrade.
      return {
        ok: true,
        detail:
          lost + ghosts === 0
            ? "each is in an open workflow"
            : `${lost} are in no open workflow, and workflows hold ${ghosts} that are none any more: a worker corrects it within two minutes`,
      };
    },
  },
  {
    name: "retention",
    fix: "check the database first",
    look: async ({ pool, clock, retentionDays }) => {
      const hours = (await oldestDayOverdueMs(pool, clock.now(), retentionDays)) / HOUR_MS;
      return hours <= DAY_OVERDUE_HOURS
        ? { ok: true, detail: `no day is kept for longer than ${retentionDays} days` }
        : {
            ok: false,
            detail: `the oldest day should have been dropped ${hours.toFixed(0)} h ago: check that the schedule purgeExpired runs, and the workers' logs for failed steps of retention`,
          };
    },
  },
  {
    name: "waiting index",
    fix: "check the database first",
    look: async ({ pool, clock }) => {
      const [health, { waiting }] = [await readTableHealth(pool), await readCensus(pool, clock.now())];
      const found = `${health.waiting_pages} pages for ${waiting} deliveries that wait`;
      // No fault: a large backlog leaves it so, and doctor runs before an upgrade.
      const hint = "see whether something keeps VACUUM from removing rows (runbook, SignetWaitingIndexEmpty)";
      return { ok: true, detail: isNearlyEmpty(health, waiting) ? `${found}: ${hint}` : found };
    },
  },
  {
    name: "counts",
    fix: "check the database first",
    look: async ({ pool, clock }) => {
      const hours = await countUncounted(pool, new Date(clock.now()));
      return {
        ok: true,
        detail:
          hours === 0
            ? "every stored delivery is counted"
            : `${hours} hours of deliveries from before the upgrade are still to be counted, newest first, by a worker`,
      };
    },
  },
];

/** Runs every check in sequence; one that throws does not stop the others. */
export async function examine(patient: Patient): Promise<Finding[]> {
  return await runChecks(CHECKS, patient);
}

/** Runs the checks of an edge or a hub; `pool` has its role. */
export async function examineOutside(outside: Outside): Promise<Finding[]> {
  return await runChecks(OUTSIDE_CHECKS, outside);
}

async function runChecks<Of extends Outside>(checks: readonly Check<Of>[], patient: Of): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const { name, fix, look } of checks) {
    try {
      findings.push({ check: name, ...(await look(patient)) });
    } catch (error) {
      findings.push(
        (await waitsForMigrations(error, patient))
          ? { check: name, ok: true, detail: "can be checked after `signet migrate`" }
          : { check: name, ok: false, detail: `${messageOf(error)}: ${fix}` },
      );
    }
  }
  return findings;
}

/** Checks the bucket of the compliance log's checkpoints. */
export async function examineBucket(open: () => Promise<CheckpointSink>): Promise<Finding> {
  try {
    const sink = await open();
    await sink.check();
    const newest = await sink.newest();
    const which = newest === undefined ? "no checkpoint yet" : `the newest checkpoint is ${newest.seq}`;
    return { check: "bucket", ok: true, detail: `${sink.place} has object lock; ${which}` };
  } catch (error) {
    const detail = `${failureOf(error)}: check SIGNET_CHECKPOINT_S3_URL, the credentials and the bucket`;
    return { check: "bucket", ok: false, detail };
  }
}
