/**
 * Tells a tenant's endpoints and streams of revocations and of other changes of its credentials. Events follow within a
 * second, in transactions of their own. No such change waits for keys, streams, or room for events.
 */
import type { Pool, Queryable } from "#database/pool.ts";
import {
  CREDENTIAL_CREATED,
  CREDENTIAL_ENDED,
  CREDENTIAL_ROTATED,
  listTenantsToTell,
  type RevocationNotice,
  SCOPES_CHANGED,
  takeNotices,
} from "#database/repositories/tokens/revocation-notices.ts";
import { transaction } from "#database/transaction.ts";
import type { OwnEventType } from "#domain/own-event-types.ts";
import { CAEP_EVENTS } from "#domain/security-events.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import { type OwnEventServices, publishOwnEvent } from "./ingest/own-event.ts";
import {
  caepMembers,
  type ChangedBy,
  credentialChanges,
  publishSecurityEvents,
  type SecurityEvent,
  type SecuritySubject,
} from "./ssf/publish.ts";

/** Name of the job that each notice wakes. */
export const REVOCATION_NOTICES_JOB = "revocation notices";
/** For notices whose notification was lost. */
const EVERY_MS = 1_000;
/** Notices per transaction. */
const BATCH = 50;

/** The events of streams for a notice of one kind, and the event of endpoints, if there is one. */
interface Told {
  readonly noun: SecuritySubject["noun"];
  readonly events: (notice: RevocationNotice) => readonly SecurityEvent[];
  readonly own?: {
    readonly type: OwnEventType;
    readonly data: (notice: RevocationNotice) => Readonly<Record<string, unknown>>;
  };
}

const SESSION_REVOKED: SecurityEvent = { name: "session-revoked" };
const sessionRevoked: Told["events"] = () => [SESSION_REVOKED];

const TOLD: Readonly<Record<string, Told>> = {
  credential: {
    noun: "credential",
    events: () => [SESSION_REVOKED, ...credentialChanges("revoke")],
    own: { type: "credential.revoked", data: revokedData },
  },
  principal: { noun: "principal", events: sessionRevoked },
  tenant: { noun: "tenant", events: sessionRevoked },
  jti: { noun: "jti", events: sessionRevoked },
  [CREDENTIAL_CREATED]: {
    noun: "credential",
    events: ({ details }) => credentialChanges("create", details ?? {}),
  },
  [CREDENTIAL_ROTATED]: { noun: "credential", events: () => credentialChanges("update") },
  [SCOPES_CHANGED]: {
    noun: "principal",
    events: ({ details }) => [
      { name: "token-claims-change", members: { claims: { scope: details?.scope ?? "" } } },
    ],
  },
  [CREDENTIAL_ENDED]: {
    noun: "credential",
    events: () => credentialChanges("delete"),
    own: {
      type: "credential.ended",
      data: ({ target, reason, at }) => ({ credential_id: target, ended_at: at.toISOString(), reason }),
    },
  },
};

export interface NoticeOptions extends OwnEventServices {
  /** Role signet_operator. */
  readonly pool: Pool;
  /** Whether to store an event only if an endpoint takes it: true in every cell but the home cell. */
  readonly onlyIfTaken: boolean;
}

function byOf({ actor, reason }: RevocationNotice): ChangedBy {
  return { actor, reason: reason ?? undefined };
}

/** Returns `data` of `credential.revoked`: our members, and those that receivers of CAEP events (OpenID) expect. */
function revokedData(notice: RevocationNotice): Readonly<Record<string, unknown>> {
  const { target, reason, at } = notice;
  const common = caepMembers(byOf(notice), at.getTime());
  return {
    credential_id: target,
    revoked_at: at.toISOString(),
    reason,
    sub_id: { format: "opaque", id: target },
    events: {
      [CAEP_EVENTS["credential-change"]]: { ...credentialChanges("revoke")[0]?.members, ...common },
      [CAEP_EVENTS["session-revoked"]]: common,
    },
  };
}

/** Publishes the events of one notice in the caller's transaction. Keys and certificates belong to no tenant's events. */
async function tell(db: Queryable, notice: RevocationNotice, options: NoticeOptions): Promise<void> {
  const { kind, target: id, tenant_id: tenantId, at } = notice;
  const told = TOLD[kind];
  if (told === undefined) {
    return;
  }
  const { noun, events, own } = told;
  if (own !== undefined) {
    const data = JSON.stringify(own.data(notice));
    await publishOwnEvent(db, { tenantId, type: own.type, data, onlyIfTaken: options.onlyIfTaken }, options);
  }
  const subject = { noun, id };
  const change = { tenantId, subject, events: events(notice), atMs: at.getTime(), ...byOf(notice) };
  await publishSecurityEvents(db, change, options);
}

async function tellTenant(tenantId: string, options: NoticeOptions): Promise<number> {
  return await transaction(options.pool, async (db) => {
    // Another transaction may keep the tenant's streams locked. Other tenants must not wait for that.
    await db.query("SET LOCAL lock_timeout = '1s'");
    const notices = await takeNotices(db, tenantId, BATCH);
    for (const notice of notices) {
      await tell(db, notice, options);
    }
    return notices.length;
  });
}

/**
 * Publishes the events of all changes that wait for theirs, each exactly once: the transaction that publishes them
 * removes the notice. Several workers may do this at once.
 *
 * @throws the first failure, after all other tenants have been told
 */
export async function publishRevocationNotices(options: NoticeOptions): Promise<void> {
  const failures: unknown[] = [];
  for (const tenantId of await listTenantsToTell(options.pool)) {
    try {
      while ((await tellTenant(tenantId, options)) === BATCH);
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) {
    throw failures[0];
  }
}

/** Returns the job that publishes the events of revocations. */
export function revocationNoticesJob(options: NoticeOptions): UpkeepJob {
  return {
    name: REVOCATION_NOTICES_JOB,
    everyMs: EVERY_MS,
    run: async () => await publishRevocationNotices(options),
  };
}
