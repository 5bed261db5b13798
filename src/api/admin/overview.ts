/** The state of the whole deployment, for `signet top` and the operators' console. */
import { newestCheckpoint } from "#database/repositories/compliance-tree.ts";
import {
  listEndingCertificates,
  listFailingEndpoints,
  listWorkers,
  OVERVIEW_COUNTED_MAX,
  readQueues,
  readTenantLag,
} from "#database/repositories/operator-overview.ts";
import { countFollowers } from "#database/repositories/tokens/revocations.ts";
import { countOverdue } from "#database/repositories/tokens/rotation-sweep.ts";
import { isSigningKeyOlder, oldestUnsigned } from "#database/repositories/webhooks/census.ts";
import { DAY_MS } from "#domain/ids.ts";
import { presenter } from "#http/present.ts";
import type { SignetServer } from "#http/types.ts";
import { metrics } from "#observability/metrics.ts";
import { SIGNING_AGE_MAX_MS } from "#tokens/signing-keys/lifecycle.ts";
import { operation } from "../openapi/operation.ts";
import { CERTIFICATES_DAYS, EndingCertificate, FailingEndpoint, Overview } from "../schemas/overview.ts";
import type { AdminServices } from "./services.ts";
import { OVERDUE_AFTER_MS } from "./why/explanation.ts";
import { WORKER_ALIVE_MS } from "./why/why.ts";

/** One reading serves everybody who asks within this time, in milliseconds. */
const SHARED_MS = 1_000;

export type OverviewServices = Pick<
  AdminServices,
  "pool" | "auditPool" | "clock" | "timers" | "checkTemporal"
>;

async function certificateFiles(): Promise<{ file: string; ends_at: string }[]> {
  const { values } = await metrics.certificateExpiry.get();
  return values.map(({ labels, value }) => ({
    file: String(labels["file"]),
    ends_at: new Date(value * 1_000).toISOString(),
  }));
}

function seconds(now: Date, at: Date | null): number | null {
  return at === null ? null : Math.max(0, Math.round((now.getTime() - at.getTime()) / 1_000));
}

const toFailingEndpoint = presenter(FailingEndpoint);
const toEndingCertificate = presenter(EndingCertificate);

async function readLag(pool: AdminServices["pool"], now: Date): Promise<Overview["lag"]> {
  return (await readTenantLag(pool, new Date(now.getTime() - OVERDUE_AFTER_MS))).map((row) => ({
    tenant_id: row.tenant_id,
    tenant_name: row.tenant_name,
    held: row.held_at !== null,
    waiting: row.waiting,
    oldest_waiting_seconds: seconds(now, row.oldest_waiting),
    overdue: row.overdue,
    most_overdue_seconds: seconds(now, row.most_overdue),
  }));
}

async function readCertificates(pool: AdminServices["pool"], now: Date): Promise<Overview["certificates"]> {
  const rows = await listEndingCertificates(pool, new Date(now.getTime() + CERTIFICATES_DAYS * DAY_MS));
  return {
    files: await certificateFiles(),
    endpoints: rows.map(toEndingCertificate),
  };
}

async function readFollowers(pool: AdminServices["pool"]): Promise<Overview["followers"]> {
  return (await countFollowers(pool)).map(({ process: kind, behind_ms: behindMs, ...row }) => ({
    ...row,
    kind,
    behind_ms: row.behind === 0 || behindMs === null ? null : Math.round(behindMs),
  }));
}

async function readRotations(pool: AdminServices["pool"], nowMs: number) {
  const [credentials, signingKey] = await Promise.all([
    countOverdue(pool, nowMs),
    isSigningKeyOlder(pool, new Date(nowMs - SIGNING_AGE_MAX_MS)),
  ]);
  return { credentials, signing_key: signingKey };
}

async function readCheckpoints(auditPool: AdminServices["auditPool"]): Promise<Overview["checkpoints"]> {
  const [newest, unsigned] = await Promise.all([newestCheckpoint(auditPool), oldestUnsigned(auditPool)]);
  return {
    newest_at: newest?.signed_at.toISOString() ?? null,
    size: newest?.size ?? null,
    oldest_unsigned_at: unsigned?.toISOString() ?? null,
  };
}

function tenths(rate: number): number {
  return Math.round(rate * 10) / 10;
}

async function readOverview({ pool, auditPool, clock, checkTemporal }: OverviewServices): Promise<Overview> {
  const nowMs = clock.now();
  const now = new Date(nowMs);
  const [workers, followers, queues, lag, worst, rotations, certificates, checkpoints, reachable] =
    await Promise.all([
      listWorkers(pool),
      readFollowers(pool),
      readQueues(pool, nowMs),
      readLag(pool, now),
      listFailingEndpoints(pool),
      readRotations(pool, nowMs),
      readCertificates(pool, now),
      readCheckpoints(auditPool),
      checkTemporal().then(
        () => true,
        () => false,
      ),
    ]);
  const seen = workers.map(({ id, seen_at: seenAt, attempts_per_second: attemptsPerSecond }) => ({
    id,
    seen_at: seenAt.toISOString(),
    alive: nowMs - seenAt.getTime() < WORKER_ALIVE_MS,
    attempts_per_second: tenths(attemptsPerSecond),
  }));
  const live = seen.filter(({ alive }) => alive);
  return {
    at: now.toISOString(),
    counted_max: OVERVIEW_COUNTED_MAX,
    temporal_reachable: reachable,
    attempts_per_second: tenths(live.reduce((sum, worker) => sum + worker.attempts_per_second, 0)),
    workers: seen,
    followers,
    queues: {
      waiting: queues.waiting,
      started: queues.started,
      retrying: queues.retrying,
      dead_letters: queues.dead_letters,
      expiring: queues.expiring,
      verifications: queues.verifications,
      replays_running: queues.replays_running,
      replays_paused: queues.replays_paused,
    },
    lag,
    endpoints: {
      failing: queues.failing_endpoints,
      stopped: queues.stopped_endpoints,
      slow: queues.slow_endpoints,
      worst: worst.map(toFailingEndpoint),
    },
    rotations: { ...rotations, endpoint_secrets: queues.overdue_endpoint_secrets },
    certificates,
    checkpoints,
  };
}

/** Creates the function that reads the overview, at most once a second. */
export function createOverview(services: OverviewServices): () => Promise<Overview> {
  let kept: { readonly atMs: number; readonly overview: Promise<Overview> } | undefined;
  return async () => {
    const atMs = services.timers.monotonic();
    if (kept === undefined || atMs - kept.atMs >= SHARED_MS) {
      const overview = readOverview(services);
      const mine = { atMs, overview };
      kept = mine;
      overview.catch(() => {
        kept = kept === mine ? undefined : kept;
      });
    }
    return await kept.overview;
  };
}

export function registerOverview(server: SignetServer, overview: () => Promise<Overview>): void {
  server.get(
    "/admin/v1/overview",
    operation({
      id: "getOverview",
      tag: "support",
      operator: "read",
      summary: "Read the state of the deployment",
      description:
        "Workers, queues, the tenants that are behind, endpoints that fail, rotations that are due, certificates that end, and checkpoints. It reads indexes up to a limit, so its cost does not depend on the number of deliveries. One reading serves everybody for a second.",
      response: { 200: Overview },
    }),
    async () => await overview(),
  );
}
