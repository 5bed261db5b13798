/**
 * Entries of the compliance log about what operators read of tenants' webhooks. A page that is open asks again and again,
 * so entries are per operator, object and minute. The first is written before anything is returned. Further reads of that minute are counted, and written when it has ended. Each api
 * process counts and writes its own. A killed process loses counts, but never the first entry.
 */
import { appendEntry } from "#compliance/append-entry.ts";
import type { ComplianceEntry, EntryServices } from "#compliance/entry.ts";
import type { Pool } from "#database/pool.ts";
import { transaction } from "#database/transaction.ts";
import type { Logger } from "#observability/logger.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import { operatorActor } from "./operator-identity.ts";

const MINUTE_MS = 60_000;
/** Maximum number of operators and objects. Above it, counts are written before their minute has ended. */
const READINGS_MAX = 1_000;
const FLUSH_MS = 5_000;

/** A request that read a tenant's endpoints, deliveries or events. */
export interface TenantReading {
  readonly operatorId: string;
  /** Null for a search over all tenants. */
  readonly tenantId: string | null;
  /** Id of what was read: one object, or the tenant for a list. Null for a search. */
  readonly target: string | null;
  /** The operation's id, for instance `listTenantDeliveries`. */
  readonly operation: string;
  readonly requestId: string;
}

/** What was read. Reads of the same within a minute share an entry. */
type Subject = Pick<ComplianceEntry, "tenant" | "target"> & {
  readonly operatorId: string;
  readonly operation: string;
};

export interface ReadAuditOptions extends EntryServices {
  /** Role signet_operator. */
  readonly pool: Pool;
  readonly log: Logger;
}

/** An operator's minute: its first entry, and the counts after it. */
interface Minute {
  readonly of: Subject;
  readonly minute: number;
  readonly written: Promise<void>;
  requests: number;
}

type Counts = Pick<Minute, "of" | "minute" | "requests"> & { readonly requestId?: string };

function entryOf({ of, minute, requests, requestId }: Counts): ComplianceEntry {
  const { operatorId, operation, ...entry } = of;
  return {
    type: "tenant.read",
    ...entry,
    actor: operatorActor(operatorId),
    requestId,
    details: {
      minute: new Date(minute * MINUTE_MS).toISOString(),
      operation,
      requests,
    },
  };
}

/** Records what operators read. */
export class ReadAudit {
  readonly #options: ReadAuditOptions;
  /** Minutes by operator and object. */
  readonly #current = new Map<string, Minute>();
  /** Ended minutes whose counts are not written yet. */
  readonly #ended: Minute[] = [];

  constructor(options: ReadAuditOptions) {
    this.#options = options;
  }

  /** The job that writes the counts of ended minutes, and all others when the process ends. */
  get job(): UpkeepJob {
    return {
      name: "counts of what operators read",
      everyMs: FLUSH_MS,
      run: async () => {
        const now = this.#minute();
        await this.#flush(({ minute }) => minute !== now);
      },
      end: async () => await this.#flush(() => true),
    };
  }

  /** Resolves when the log has an entry for this operator, object and minute. Rejects if it cannot be written. */
  async noteTenant({ operatorId, tenantId, target, operation, requestId }: TenantReading): Promise<void> {
    const of = { operatorId, tenant: tenantId, target, operation };
    const minute = this.#minute();
    const key = JSON.stringify(of);
    const known = this.#current.get(key);
    if (known?.minute === minute) {
      // Counted before waiting, because the minute may end meanwhile.
      known.requests += 1;
      await known.written;
      return;
    }
    if (known !== undefined) {
      this.#end(key, known);
    } else if (this.#current.size >= READINGS_MAX) {
      [...this.#current].slice(0, 1).forEach((oldest) => this.#end(...oldest));
    }
    await this.#begin(key, { of, minute, requests: 1, requestId });
  }

  #minute(): number {
    return Math.floor(this.#options.clock.now() / MINUTE_MS);
  }

  async #begin(key: string, counts: Counts): Promise<void> {
    const { of, minute } = counts;
    const written = this.#write(counts);
    this.#current.set(key, { of, minute, written, requests: 0 });
    try {
      await written;
    } catch (error) {
      // Later requests must not take the failed entry for written.
      if (this.#current.get(key)?.written === written) {
        this.#current.delete(key);
      }
      throw error;
    }
  }

  #end(key: string, minute: Minute): void {
    this.#current.delete(key);
    if (minute.requests > 0) {
      this.#ended.push(minute);
    }
  }

  async #flush(isOver: (minute: Minute) => boolean): Promise<void> {
    for (const [key, minute] of [...this.#current].filter(([, each]) => isOver(each))) {
      this.#end(key, minute);
    }
    for (let minute = this.#ended.shift(); minute !== undefined; minute = this.#ended.shift()) {
      try {
        await minute.written;
      } catch {
        // The first entry could not be written, so nothing was returned.
        continue;
      }
      try {
        await this.#write(minute);
      } catch (error) {
        // Retried in the next run.
        this.#ended.push(minute);
        throw error;
      }
    }
  }

  async #write(counts: Counts): Promise<void> {
    const { pool, log, clock, randomBytes } = this.#options;
    const entry = entryOf(counts);
    await transaction(pool, async (db) => await appendEntry(db, entry, { clock, randomBytes }));
    const { requestId: request_id, type: operation, actor, tenant: tenant_id, target } = entry;
    const { requests } = counts;
    log.info({ request_id, actor, operation, tenant_id, target, requests }, "read by an operator");
  }
}
