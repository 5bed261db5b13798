/** Entries of replay jobs in the compliance log: one when a job begins, one when it ends. */
import { appendEntry, type By } from "#compliance/append-entry.ts";
import type { EntryServices } from "#compliance/entry.ts";
import type { Queryable } from "#database/pool.ts";
import type { ReplayJob } from "#database/repositories/webhooks/replay-jobs.ts";

async function log(
  db: Queryable,
  job: ReplayJob,
  { by, details }: { readonly by: By; readonly details: Readonly<Record<string, string | number>> },
  sources: EntryServices,
): Promise<void> {
  const { id, tenant_id: tenantId, kind, state, total, rate_per_second: ratePerSecond } = job;
  await appendEntry(
    db,
    {
      ...by,
      type: "dlq.replayed",
      tenant: tenantId,
      target: id,
      details: { kind, state, total, rate_per_second: ratePerSecond, ...details },
    },
    sources,
  );
}

/** For the transaction that creates a job. */
export async function logJobStart(
  db: Queryable,
  job: ReplayJob,
  by: By,
  sources: EntryServices,
): Promise<void> {
  await log(db, job, { by, details: {} }, sources);
}

/** For the transaction that ends a job. */
export async function logJobEnd(
  db: Queryable,
  job: ReplayJob,
  by: By,
  sources: EntryServices,
): Promise<void> {
  const { done, failed, skipped } = job;
  await log(db, job, { by, details: { done, failed, skipped } }, sources);
}
