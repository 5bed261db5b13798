/**
 * Our own metrics (Prometheus). Names and labels are public: dashboards and alerts use them, and the table in
 * docs/observability.md is generated from this file. Metrics use base units. Labels have few values: never a tenant, an
 * endpoint or a URL.
 */
import { Counter, Gauge, Histogram } from "prom-client";

/** A process that exports metrics; `signet serve` is all of them in one. */
export type ProcessName = "api" | "worker" | "edge" | "hub";

/** A metric as listed in the documentation. */
export interface MetricDescription {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  readonly help: string;
  readonly processes: readonly ProcessName[];
}

export interface OwnMetric extends MetricDescription {
  readonly metric: Counter | Gauge | Histogram;
}

const described: OwnMetric[] = [];

/** All of our own metrics, in the order of this file. */
export const OWN_METRICS: readonly OwnMetric[] = described;

type Processes = readonly ProcessName[];
const EVERYWHERE: Processes = ["api", "worker", "edge", "hub"];
/** Processes that admit tokens. */
const ADMITTING: Processes = ["api", "edge"];
const API: Processes = ["api"];
const WORKER: Processes = ["worker"];
const EDGE: Processes = ["edge"];
const HUB: Processes = ["hub"];
/** Processes that follow the revocations, or relay them. */
const FOLLOWING: Processes = ["api", "edge", "hub"];

function note<M extends Counter | Gauge | Histogram>(
  metric: M,
  { name, help, type, labels, processes }: MetricDescription,
): M {
  described.push({ name, help, type, labels, processes, metric });
  return metric;
}

// They belong to no registry until a process selects its own (process-metrics.ts): a zero from an edge, which has no
// deliveries, would look like a measurement.

function counter(processes: Processes, name: string, help: string, labels: readonly string[] = []): Counter {
  const metric = new Counter({ name, help, labelNames: [...labels], registers: [] });
  return note(metric, { name, help, type: "counter", labels, processes });
}

function gauge(processes: Processes, name: string, help: string, labels: readonly string[] = []): Gauge {
  const metric = new Gauge({ name, help, labelNames: [...labels], registers: [] });
  return note(metric, { name, help, type: "gauge", labels, processes });
}

interface Shape {
  readonly buckets: readonly number[];
  readonly labels?: readonly string[];
}

function histogram(processes: Processes, name: string, help: string, shape: Shape): Histogram {
  const { buckets, labels = [] } = shape;
  const metric = new Histogram({
    name,
    help,
    labelNames: [...labels],
    buckets: [...buckets],
    registers: [],
  });
  return note(metric, { name, help, type: "histogram", labels, processes });
}

/** Seconds. */
const REQUEST_BUCKETS = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10] as const;
const LAG_BUCKETS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3_600] as const;

/** The metrics of this process. */
export const metrics = {
  build: gauge(
    EVERYWHERE,
    "signet_build_info",
    "Always 1; the labels name the version, the process and SIGNET_REGION",
    ["version", "process", "region"],
  ),
  checkOk: gauge(
    EVERYWHERE,
    "signet_check_ok",
    "1 while a dependency of the process works, 0 while it does not: the checks of /readyz, made every 10 seconds",
    ["check"],
  ),
  clockSkew: gauge(
    EVERYWHERE,
    "signet_clock_skew_seconds",
    "How far the machine's clock is ahead of PostgreSQL's; negative if it is behind; beyond 30 the process signs nothing",
  ),
  homeClockSkew: gauge(
    ["api", "worker"],
    "signet_home_clock_skew_seconds",
    "How far the clock of this cell's PostgreSQL is ahead of the home cell's; negative if it is behind; beyond 30 the process signs nothing",
  ),
  poolConnections: gauge(
    EVERYWHERE,
    "signet_database_pool_connections",
    "Connections to PostgreSQL by role, in use or idle",
    ["role", "state"],
  ),
  poolSize: gauge(
    EVERYWHERE,
    "signet_database_pool_size",
    "Maximum number of connections to PostgreSQL by role",
    ["role"],
  ),
  poolWaiting: gauge(
    EVERYWHERE,
    "signet_database_pool_waiting",
    "Queries and transactions waiting for a connection, by role",
    ["role"],
  ),
  certificateExpiry: gauge(
    EVERYWHERE,
    "signet_certificate_expiry_timestamp_seconds",
    "When the first certificate of a file in use by this process expires, Unix time",
    ["file"],
  ),
  certificateFilesRefused: gauge(
    EVERYWHERE,
    "signet_certificate_files_refused",
    "1 while new keys, certificates or authorities are unusable and the previous ones stay in use",
    ["files"],
  ),
  httpRequests: counter(
    API,
    "signet_http_requests_total",
    "Requests answered by the api, by listener (public or admin), route pattern, method and status",
    ["listener", "route", "method", "status"],
  ),
  httpSeconds: histogram(
    API,
    "signet_http_request_seconds",
    "Time from a request's headers to the end of its response, by listener and route pattern",
    { labels: ["listener", "route"], buckets: REQUEST_BUCKETS },
  ),
  eventsAccepted: counter(
    API,
    "signet_events_accepted_total",
    "Events that were accepted and durably stored",
  ),
  ingestCommit: histogram(
    API,
    "signet_ingest_commit_seconds",
    "Duration of a commit of accepted events; one commit holds the events of many requests",
    { buckets: REQUEST_BUCKETS },
  ),
  queued: counter(
    WORKER,
    "signet_queued_deliveries_total",
    "New deliveries of this process's api, by whether they went to its sender or to the outbox, and why to the outbox",
    ["to", "reason"],
  ),
  oldestUnattempted: gauge(
    WORKER,
    "signet_oldest_unattempted_seconds",
    "Age of the oldest accepted delivery without an attempt; 0 if there is none",
  ),
  mostOverdue: gauge(
    WORKER,
    "signet_most_overdue_seconds",
    "Delay of the retry that is overdue longest; 0 if there is none",
  ),
  firstAttemptLag: histogram(
    WORKER,
    "signet_first_attempt_lag_seconds",
    "Time from the acceptance of a delivery to its first attempt, except for replays",
    { buckets: LAG_BUCKETS },
  ),
  attempts: counter(
    WORKER,
    "signet_attempts_total",
    "Finished attempts by outcome: delivered, the class of the receiver's failure, or internal for our own failures",
    ["outcome"],
  ),
  attemptSeconds: histogram(
    WORKER,
    "signet_attempt_seconds",
    "Duration of an attempt, from before the name is resolved to the headers of the response",
    { buckets: REQUEST_BUCKETS },
  ),
  deliveriesEnded: counter(
    WORKER,
    "signet_deliveries_ended_total",
    "Deliveries ended by attempts or by disabled endpoints, by state: delivered, dead_lettered or cancelled",
    ["state"],
  ),
  openDeliveries: gauge(
    WORKER,
    "signet_open_deliveries",
    "Deliveries that have not ended, by state: waiting (no workflow yet), started (no attempt yet), retrying; 100000 means that or more",
    ["state"],
  ),
  deadLetters: gauge(
    WORKER,
    "signet_dead_letters",
    "Dead letters that can be replayed; 100000 means that or more",
  ),
  deadLettersExpiring: gauge(
    WORKER,
    "signet_dead_letters_expiring",
    "Dead letters that expire within a day; 100000 means that or more",
  ),
  unhealthyEndpoints: gauge(
    WORKER,
    "signet_unhealthy_endpoints",
    "Active endpoints by health: degraded, failing",
    ["health"],
  ),
  uncountedHours: gauge(
    WORKER,
    "signet_uncounted_parts",
    "Hours whose deliveries were stored before an upgrade and are still to be counted",
  ),
  lateDeliveries: gauge(
    WORKER,
    "signet_late_deliveries",
    "Deliveries that are overdue by more than a minute although their workflow is open",
  ),
  uncarriedDeadLetters: gauge(
    WORKER,
    "signet_uncarried_dead_letters",
    "Dead letters that no open workflow carries, by the last comparison with Temporal",
  ),
  cellLogLag: gauge(
    WORKER,
    "signet_cell_log_lag_seconds",
    "How long the oldest entry of a cell's compliance log has waited: in the cell, to be sent; in the home cell, to be appended",
  ),
  movedDeliveries: counter(
    WORKER,
    "signet_moved_deliveries_total",
    "Deliveries that were assigned to a new workflow because theirs was gone",
  ),
  replayJobs: gauge(WORKER, "signet_replay_jobs", "Replay jobs that have not ended, by state", ["state"]),
  verificationBacklog: gauge(
    WORKER,
    "signet_verification_backlog",
    "Endpoints whose requested verification has not begun; 100000 means that or more",
  ),
  oldestVerification: gauge(
    WORKER,
    "signet_oldest_verification_seconds",
    "Age of the oldest requested verification that has not begun; 0 if there is none",
  ),
  checkpointSize: gauge(
    WORKER,
    "signet_checkpoint_entries",
    "Entries of the compliance log under the newest signed checkpoint",
  ),
  checkpointAge: gauge(
    WORKER,
    "signet_checkpoint_age_seconds",
    "Age of the oldest entry of the compliance log that no checkpoint covers; 0 if all are covered",
  ),
  checkpointRefused: gauge(
    WORKER,
    "signet_checkpoint_refused",
    "1 while the compliance log contradicts its newest checkpoint, so that nothing is signed",
  ),
  overdueRotations: gauge(
    WORKER,
    "signet_overdue_rotations",
    "Overdue rotations by kind: credential (due a week ago, successor not in use), signing_key (has signed for 31 days or more), endpoint_secret (due a day ago)",
    ["kind"],
  ),
  rateLimited: counter(
    ADMITTING,
    "signet_rate_limited_total",
    "Requests rejected with 429 RATE_LIMITED, by limit",
    ["limit"],
  ),
  rotationsPutOff: counter(
    API,
    "signet_rotations_put_off_total",
    "Token responses that could not perform their step of a rotation, for instance on a read-only database",
  ),
  lateSecretUses: counter(
    API,
    "signet_late_secret_uses_total",
    "Uses of ended client secrets, at most one per day and version: rescue returns a token, misuse does not",
    ["use"],
  ),
  revocationAge: gauge(
    FOLLOWING,
    "signet_revocation_age_seconds",
    "Age of this process's lease: time since it certainly knew every revocation; tokens are rejected when it is too old. In a hub, time since the last proof",
  ),
  revocationPropagation: histogram(
    API,
    "signet_revocation_propagation_seconds",
    "Time from a revocation to the acknowledgement of the slowest following process",
    { buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25] },
  ),
  revocationUnacknowledged: counter(
    API,
    "signet_revocation_unacknowledged_total",
    "Processes that had not acknowledged a revocation within 250 ms; by then they no longer admit tokens",
  ),
  revocationSequence: gauge(
    FOLLOWING,
    "signet_revocation_sequence",
    "Sequence number of the last revocation known to this process",
  ),
  revocationServingStale: gauge(
    ADMITTING,
    "signet_revocation_serving_stale",
    "1 while tokens are admitted although a revocation from more than 250 ms ago may be unknown (bounded mode)",
  ),
  revocationStale: counter(
    ADMITTING,
    "signet_revocation_stale_total",
    "Requests rejected with REVOCATION_STALE",
  ),
  refusedPublishes: gauge(
    API,
    "signet_refused_publish_share",
    "Share of a tenant's events that this process refused with 429 or 503 in the last whole minute, of the tenant that was refused most; the log names it",
  ),
  retentionFailures: counter(
    WORKER,
    "signet_retention_failures_total",
    "Failures of a step that removes expired data; the other steps went on",
    ["step"],
  ),
  retentionBehind: gauge(
    WORKER,
    "signet_retention_behind",
    "1 if the last run of a step left expired data behind",
    ["step"],
  ),
  retentionLockWait: gauge(
    WORKER,
    "signet_retention_lock_seconds",
    "Longest time for which the last drop of a day held up publishes and deliveries",
  ),
  oldestPartition: gauge(
    WORKER,
    "signet_oldest_partition_overdue_seconds",
    "How long ago the oldest day partition should have been dropped; days with many open deliveries are left out",
  ),
  waitingIndexPages: gauge(
    WORKER,
    "signet_waiting_index_pages",
    "Pages of the indexes by which deliveries without an attempt are found, of all days; each holds some 70",
  ),
  lockWait: gauge(
    WORKER,
    "signet_lock_wait_seconds",
    "How long the longest present wait for a lock on events, deliveries or attempts has lasted; 0 if nothing waits",
  ),
  edgeRequests: counter(
    EDGE,
    "signet_edge_requests_total",
    "Requests at the edge by route pattern, status and responder: edge or upstream",
    ["route", "status", "by"],
  ),
  edgeUpstream: histogram(
    EDGE,
    "signet_edge_upstream_seconds",
    "Time from sending a request to its upstream to the headers of the response",
    { labels: ["upstream"], buckets: [0.001, ...REQUEST_BUCKETS, 30] },
  ),
  edgeRoutes: gauge(EDGE, "signet_edge_routes", "Routes in the edge's current route table"),
  edgeRoutesRefused: gauge(
    EDGE,
    "signet_edge_routes_refused",
    "1 while the newest route table is invalid and the previous one stays in use",
  ),
  hubFaults: counter(
    HUB,
    "signet_hub_faults_total",
    "What no honest process does, by reason: malformed messages, too many of them (rate), more followers than its own, a backlog, or too many connections with one certificate",
    ["reason"],
  ),
  hubConnections: gauge(HUB, "signet_hub_connections", "Processes and hubs connected to this hub"),
  hubRoundTrip: gauge(
    HUB,
    "signet_hub_round_trip_seconds",
    "Smoothed round trip of the hub's questions to PostgreSQL or the hubs above; leases hold up to 0.19",
  ),
} as const;
