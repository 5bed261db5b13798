/** What the parts of an api process are made of. Each part takes the record, and names the members that it uses. */
import { randomBytes } from "node:crypto";
import type { Client } from "@temporalio/client";
import { InProcessCalls } from "#api/in-process.ts";
import { cellsOf } from "#config/cell-settings.ts";
import type { Config, ListenAddress } from "#config/config.ts";
import { poolAccess } from "#config/database-settings.ts";
import type { Keyring } from "#crypto/keyring.ts";
import type { Pepper } from "#crypto/pepper.ts";
import { loadServiceSecrets } from "#crypto/service-secrets.ts";
import { requireUsableDatabase } from "#database/access.ts";
import { CellClock, openProcessClock } from "#database/database-clock.ts";
import { createPool, type Pool, type ServiceRole } from "#database/pool.ts";
import { findTenantPolicies } from "#database/repositories/tenant-policies.ts";
import type { Clock, GuardedClock, Timers } from "#domain/clock.ts";
import type { RandomBytes } from "#domain/ids.ts";
import { type Cells, isAway } from "#domain/regions.ts";
import { TenantLimits } from "#http/rate-limits/tenant-limits.ts";
import { TenantPolicies } from "#http/rate-limits/tenant-policies.ts";
import { homeSkewJob } from "#observability/clock-skew.ts";
import type { Logger } from "#observability/logger.ts";
import type { PortalBrands } from "#portal/brand.ts";
import { Receipts } from "#revocation/receipts.ts";
import { machineTimers } from "#runtime/machine-timers.ts";
import { openWatchedClient, temporalOptions } from "#temporal/client.ts";
import { reportUnknownSdk } from "#temporal/sdk-patches.ts";
import { type TemporalUi, temporalUi } from "#temporal/views.ts";
import { ReadAudit } from "#tokens/operators/read-audit.ts";
import type { HandOver } from "#webhooks/ingest/hand-over.ts";
import { followHome } from "../home-knowledge.ts";
import type { Front } from "../mutual-tls.ts";
import { followRevocations, type RunningFollower } from "../revocation.ts";
import { type ApiKeys, openSigningKeys } from "../signing-keys.ts";
import { openPortalBrands } from "./portal-brands.ts";

export interface ApiProcessOptions {
  readonly config: Config & { readonly databaseUrl: string; readonly temporalAddress: string };
  readonly log: Logger;
  /** Replaces the clock of this process's database in tests; not that of the home cell. */
  readonly clock?: Clock;
  /** The mutual TLS listener's address, if an edge of this deployment uses SIGNET_EDGE_LISTEN. */
  readonly mutualTlsListen?: ListenAddress | undefined;
  /** A worker in the same process, which takes new deliveries over. */
  readonly handOver?: HandOver | undefined;
  /** Starts an edge in the same process, which listens by mutual TLS in place of the api. Resolves with its address. */
  readonly front?: Front | undefined;
}

/** Pools by database role: PostgreSQL decides what a route may touch. */
export interface Pools {
  /** signet_api, with row-level security by tenant. */
  readonly api: Pool;
  readonly ingest: Pool;
  /** signet_issuer: sees only the public keys of endpoints. */
  readonly issuer: Pool;
  /** signet_operator, which may read all tenants. */
  readonly operator: Pool;
  /** signet_audit, which reads the compliance log. */
  readonly audit: Pool;
}

/** What an api knows of keys and revocations, with the clock that dates them. */
interface Knowledge extends ApiKeys {
  readonly revocation: RunningFollower;
  /** This cell's clock. In another cell than the home cell, it must agree with that of the home cell. */
  readonly clock: GuardedClock;
  /** Dates tokens, denials and signing keys: the home cell's clock (decision 39). */
  readonly tokenClock: GuardedClock;
}

/** Collaborators of an api process, each created once. */
export interface ApiProcessServices extends Knowledge, Pick<ApiProcessOptions, "log" | "handOver"> {
  /** The settings. `publicUrl` is what callers see: in a cell, its own URL. */
  readonly config: ApiProcessOptions["config"];
  /** SIGNET_PUBLIC_URL, which is the home cell's. */
  readonly issuer: string;
  /** Set if regions have cells of their own. */
  readonly cells: Cells | undefined;
  readonly pools: Pools;
  readonly pepper: Pepper;
  readonly keyring: Keyring;
  readonly tenantLimits: TenantLimits;
  /** Waits until processes enforce a revocation, and records the receipt. */
  readonly receipts: Receipts;
  /** Records in the compliance log what operators read. */
  readonly readAudit: ReadAudit;
  readonly temporal: Client;
  readonly temporalUi: TemporalUi;
  /** Calls by pages: of the portal, and of the operators' console on the other listener. */
  readonly calls: InProcessCalls;
  /** Names, colours and logos of both sets of pages. */
  readonly brands: PortalBrands;
  readonly timers: Timers;
  readonly randomBytes: RandomBytes;
}

function openPools({ config, log }: ApiProcessOptions): Pools {
  const open = (role: ServiceRole): Pool =>
    createPool({ ...poolAccess(config), role, max: config.databaseConnections, log });
  return {
    api: open("signet_api"),
    ingest: open("signet_ingest"),
    issuer: open("signet_issuer"),
    operator: open("signet_operator"),
    audit: open("signet_audit"),
  };
}

function openTenantLimits(config: Config, pool: Pool, clock: Clock): TenantLimits {
  const policies = new TenantPolicies({
    timers: machineTimers,
    find: async (tenantIds) => await findTenantPolicies(pool, tenantIds),
    defaults: config,
    clock,
  });
  return new TenantLimits({ policies, monotonic: machineTimers.monotonic });
}

type Known = Pick<ApiProcessServices, "config" | "cells" | "pools" | "keyring" | "tenantLimits" | "log">;

/** Opens keys and revocations: those of this database, or in another cell those of the home cell. */
async function openKnowledge(known: Known, own: GuardedClock): Promise<Knowledge> {
  const { config, cells, pools, keyring, log } = known;
  const onPolicyChange = (tenantId: string): void => known.tenantLimits.forget(tenantId);
  if (isAway(cells)) {
    const { clock: tokenClock, keys, revocation } = await followHome({ config, onPolicyChange, log });
    const clock = new CellClock(own, tokenClock);
    return { clock, tokenClock, keys, setKeys: keys, revocation, jobs: [homeSkewJob(clock, log)] };
  }
  const { keys, setKeys, jobs } = await openSigningKeys({ config, pools, keyring, clock: own, log });
  const revocation = await followRevocations({ config, onPolicyChange, time: own, log });
  return { clock: own, tokenClock: own, keys, setKeys, revocation, jobs };
}

/** Opens the collaborators. The caller closes them. */
export async function openServices(options: ApiProcessOptions): Promise<ApiProcessServices> {
  const { config: given, handOver, log } = options;
  const { pepper, keyring } = await loadServiceSecrets(given, randomBytes, machineTimers);
  const pools = openPools(options);
  await requireUsableDatabase(pools.api, given, given);
  const own = await openProcessClock(options.clock, pools.api, machineTimers);
  const cells = cellsOf(given);
  const config = { ...given, publicUrl: cells?.own.url ?? given.publicUrl };
  const tenantLimits = openTenantLimits(config, pools.issuer, own);
  const knowledge = await openKnowledge({ config, cells, pools, keyring, tenantLimits, log }, own);
  const { clock } = knowledge;
  reportUnknownSdk(config, log);
  const { client: temporal, watch } = openWatchedClient(temporalOptions(config), keyring, machineTimers, log);
  const readAudit = new ReadAudit({ pool: pools.operator, clock, randomBytes, log });
  return {
    ...knowledge,
    config,
    issuer: given.publicUrl,
    cells,
    pools,
    pepper,
    keyring,
    tenantLimits,
    receipts: new Receipts({
      pool: pools.issuer,
      region: config.region,
      clock,
      timers: machineTimers,
      randomBytes,
      log,
    }),
    readAudit,
    temporal,
    temporalUi: temporalUi(config, temporal),
    calls: new InProcessCalls(),
    brands: openPortalBrands(config, pools.api),
    handOver,
    timers: machineTimers,
    randomBytes,
    log,
    jobs: [watch, readAudit.job, ...knowledge.jobs],
  };
}
