/**
 * A worker's ties to the home cell (decision 35). It keeps the tenants as the home cell has them, sends it the compliance
 * log of this cell, and applies its revocations to portal sessions and endpoints here.
 */
import { randomBytes } from "node:crypto";
import { appendEntry } from "#compliance/append-entry.ts";
import { cellEntry } from "#compliance/cell-entry.ts";
import { type Config, ConfigError } from "#config/config.ts";
import type { Keyring } from "#crypto/keyring.ts";
import { createPool, type Pool, type Queryable } from "#database/pool.ts";
import {
  appendCellEntries,
  cellLogSize,
  endPortalSessionsOf,
  findKnownTenants,
  type HomeRevocation,
  type HomeTenant,
  insertHomeTenant,
  type LogEntryRow,
  moveEndPosition,
  moveHomePosition,
  readEntriesFrom,
  readEndPosition,
  readHomeEnds,
  readHomePosition,
  readHomeRevocations,
  readHomeTenants,
  updateHomeTenant,
} from "#database/repositories/cells.ts";
import { CREDENTIAL_ENDED, insertNotices } from "#database/repositories/tokens/revocation-notices.ts";
import { destroyTenant } from "#database/repositories/tenant-erasure.ts";
import { transaction } from "#database/transaction.ts";
import { CellClock, DatabaseClock } from "#database/database-clock.ts";
import type { Clock, GuardedClock, Timers } from "#domain/clock.ts";
import type { Cell } from "#domain/regions.ts";
import type { Logger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";

const EVERY_MS = 1_000;
/** All tenants are compared again this often, in case the home cell was restored from a backup. */
const WHOLE_PASS_MS = 600_000;
const TENANTS_PAGE = 500;
const ENTRIES_PAGE = 100;
const REVOCATIONS_PAGE = 100;

/** Returns the URL of the home cell's database. @throws ConfigError if it is not set */
export function homeDatabase({ homeDatabaseUrl }: Config): string {
  if (homeDatabaseUrl === undefined) {
    throw new ConfigError(["SIGNET_HOME_DATABASE_URL must be set in a cell that is not the home cell"]);
  }
  return homeDatabaseUrl;
}

export interface HomeJobsOptions {
  readonly cell: Cell;
  /** From {@link openHomePool}. */
  readonly home: Pool;
  /** Role signet_operator. */
  readonly operatorPool: Pool;
  /** Role signet_audit. */
  readonly auditPool: Pool;
  readonly keyring: Keyring;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Connections of a worker to the home cell's database. The jobs of {@link homeJobs} close them. */
export function openHomePool(config: Config, log: Logger): Pool {
  return createPool({ url: homeDatabase(config), role: "signet_cell", max: 2, log });
}

/** Returns a worker's clock, compared with the home cell's as soon as that answers. Work goes on without the home cell. */
export async function openCellClock(
  own: GuardedClock,
  home: Pool,
  timers: Timers,
  log: Logger,
): Promise<CellClock> {
  const clock = new CellClock(own, new DatabaseClock(timers, home));
  await clock.home
    .measure()
    .catch((error: unknown) => log.warn({ err: error }, "the home cell's clock is not known yet"));
  return clock;
}

/** Returns the jobs of a worker. Several workers may run them at once. */
export function homeJobs(options: HomeJobsOptions): readonly UpkeepJob[] {
  const { home } = options;
  const jobs = [
    new TenantsOfHome(home, options),
    new LogForHome(home, options),
    sequenceOfHome("revocations of the home cell", options, applyRevocations),
    sequenceOfHome("ended credentials of the home cell", options, applyEnds),
  ];
  return jobs.map((job, index) => ({
    name: job.name,
    everyMs: EVERY_MS,
    run: async () => await job.run(),
    ...(index === 0 ? { end: async () => await home.end() } : {}),
  }));
}

/**
 * Returns a tenant with the beginning of its hold by this cell's clock: its end, and what it postpones, are of this clock,
 * too.
 */
function heldHere(tenant: HomeTenant, own: HomeTenant | undefined, now: Date): HomeTenant {
  return tenant.held_at === null ? tenant : { ...tenant, held_at: own?.held_at ?? now };
}

/** Keeps the tenants as the home cell has them. */
class TenantsOfHome {
  readonly name = "tenants of the home cell";
  readonly #home: Pool;
  readonly #options: HomeJobsOptions;
  #since: string | null = null;
  #wholeAt = Number.NEGATIVE_INFINITY;

  constructor(home: Pool, options: HomeJobsOptions) {
    this.#home = home;
    this.#options = options;
  }

  async run(): Promise<void> {
    const now = this.#options.clock.now();
    const whole = this.#since === null || now - this.#wholeAt >= WHOLE_PASS_MS;
    const since = whole ? null : this.#since;
    let next: string | undefined;
    let after = "";
    for (;;) {
      const { tenants, upto } = await readHomeTenants(this.#home, { since, after, limit: TENANTS_PAGE });
      if (since !== null && BigInt(upto) < BigInt(since)) {
        // Transaction ids that go back are those of another server, which was restored from a dump.
        this.#since = null;
        return;
      }
      // What changes during the pass may be on a page that was read already.
      next ??= upto;
      await this.#apply(tenants);
      const last = tenants.at(-1);
      if (last === undefined || tenants.length < TENANTS_PAGE) {
        break;
      }
      after = last.id;
    }
    this.#since = next;
    this.#wholeAt = whole ? now : this.#wholeAt;
  }

  async #apply(tenants: readonly HomeTenant[]): Promise<void> {
    const { operatorPool, keyring, clock } = this.#options;
    const known = await findKnownTenants(
      operatorPool,
      tenants.map(({ id }) => id),
    );
    const now = new Date(clock.now());
    for (const given of tenants) {
      const own = known.get(given.id);
      const tenant = heldHere(given, own, now);
      if (tenant.state === "ERASED") {
        if (own !== undefined && own.state !== "ERASED") {
          await this.#erase(tenant.id);
        }
      } else if (own === undefined) {
        await insertHomeTenant(operatorPool, tenant, await keyring.newTenantDataKey(tenant.id));
      } else if (own.state !== "ERASED" && JSON.stringify(own) !== JSON.stringify(tenant)) {
        await updateHomeTenant(operatorPool, tenant, now);
      }
    }
  }

  async #erase(id: string): Promise<void> {
    const { operatorPool, clock, log } = this.#options;
    await transaction(operatorPool, async (db) => {
      await destroyTenant(db, id, new Date(clock.now()));
      await appendEntry(
        db,
        { type: "tenant.erased", actor: "system:cell", tenant: id, target: id },
        { clock, randomBytes },
      );
    });
    log.info({ tenant_id: id }, "erased a tenant that the home cell has erased");
  }
}

/** Sends the compliance log of this cell to the home cell, in order, each entry once. */
class LogForHome {
  readonly name = "compliance log for the home cell";
  readonly #home: Pool;
  readonly #options: HomeJobsOptions;
  /** Number of entries that the home cell has, as far as known. */
  #sent = 0;

  constructor(home: Pool, options: HomeJobsOptions) {
    this.#home = home;
    this.#options = options;
  }

  async run(): Promise<void> {
    const { cell, auditPool } = this.#options;
    await this.#measure();
    for (let size = await cellLogSize(this.#home, cell.region); ;) {
      // With the entry before, by which the home cell knows this log.
      const from = Math.max(0, size - 1);
      const rows = await readEntriesFrom(auditPool, from, ENTRIES_PAGE);
      const fresh = rows.filter(({ idx }) => idx >= size);
      if (rows.length < size - from) {
        throw new Error(`the home cell has ${size} entries of this cell, whose own log is shorter`);
      }
      this.#sent = size;
      if (fresh.length === 0) {
        await this.#measure();
        return;
      }
      size = await this.#send(size, rows[0] as LogEntryRow, fresh);
    }
  }

  /** Measures how long the oldest entry has waited, also while the home cell cannot be reached. */
  async #measure(): Promise<void> {
    const { auditPool, clock } = this.#options;
    const [oldest] = await readEntriesFrom(auditPool, this.#sent, 1);
    metrics.cellLogLag.set(oldest === undefined ? 0 : Math.max(0, clock.now() - oldest.at.getTime()) / 1_000);
  }

  async #send(first: number, before: LogEntryRow, fresh: readonly LogEntryRow[]): Promise<number> {
    const { region } = this.#options.cell;
    return await appendCellEntries(this.#home, {
      cell: region,
      first,
      entries: fresh.map(({ entry }) => cellEntry(entry, region)),
      leafBefore: first === 0 ? null : before.leaf_hash,
      leaves: fresh.map(({ leaf_hash }) => leaf_hash),
    });
  }
}

/** What a part of a sequence of the home cell means here. */
interface PartOfHome {
  /** Whose portal sessions end. The api denies them at once, but forgets them before a session ends. */
  readonly revoked: Parameters<typeof endPortalSessionsOf>[1];
  /** Notices for the endpoints of this cell, as at home. */
  readonly notices: Parameters<typeof insertNotices>[1];
}

async function applyPart(db: Queryable, { revoked, notices }: PartOfHome): Promise<void> {
  await endPortalSessionsOf(db, revoked);
  await insertNotices(db, notices);
}

/**
 * Applies the next part of a sequence, in the transaction that moves this cell's position in it. If the position does not
 * move, another worker has applied the part.
 *
 * @returns whether nothing follows
 */
type ApplyNext = (options: HomeJobsOptions) => Promise<boolean>;

async function applyRevocations({ home, operatorPool }: HomeJobsOptions): Promise<boolean> {
  const position = await readHomePosition(operatorPool);
  const known = position?.seq;
  const { clock, revocations } = await readHomeRevocations(home, known ?? null, REVOCATIONS_PAGE);
  const isLast = revocations.length < REVOCATIONS_PAGE;
  const next = isLast ? clock : (revocations.at(-1) as HomeRevocation).seq;
  if (next === known && position?.fresh === true) {
    return isLast;
  }
  const isRestored = known !== undefined && next < known;
  const part: PartOfHome = {
    // New revocations of a home cell that was restored have numbers that this cell takes for known.
    revoked: isRestored ? [{ kind: "all", target: "" }] : revocations,
    notices: revocations.flatMap(({ tenant_id: tenantId, ...revocation }) =>
      tenantId === null ? [] : [{ ...revocation, tenant_id: tenantId }],
    ),
  };
  await transaction(operatorPool, async (db) => {
    if (await moveHomePosition(db, known, next)) {
      await applyPart(db, part);
    }
  });
  return isLast;
}

async function applyEnds({ home, operatorPool }: HomeJobsOptions): Promise<boolean> {
  const known = await readEndPosition(operatorPool);
  const { newest, ends } = await readHomeEnds(home, known, REVOCATIONS_PAGE);
  // Lower than before if the home cell was restored from a backup.
  const next = ends.at(-1)?.end_index ?? newest;
  if (next === known) {
    return true;
  }
  const by = { kind: CREDENTIAL_ENDED, actor: "system:rotation", reason: "replaced" };
  const part: PartOfHome = {
    revoked: ends.map(({ target }) => ({ kind: "credential", target })),
    notices: ends.map(({ tenant_id, target, at }) => ({ ...by, tenant_id, target, at })),
  };
  await transaction(operatorPool, async (db) => {
    if (await moveEndPosition(db, known, next)) {
      await applyPart(db, part);
    }
  });
  return ends.length < REVOCATIONS_PAGE;
}

/** Applies a sequence of the home cell in its order, each item once, whatever ends in between. */
function sequenceOfHome(name: string, options: HomeJobsOptions, applyNext: ApplyNext) {
  const run = async (): Promise<void> => {
    while (!(await applyNext(options)));
  };
  return { name, run };
}
