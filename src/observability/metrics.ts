/** The metrics of our own (Prometheus). Names and labels are public: dashboards and alerts are written against them. */
import { Counter, Gauge, Histogram, register } from "prom-client";

/** One set per process. */
export const metrics = {
  oldestUnattempted: new Gauge({
    name: "signet_oldest_unattempted_seconds",
    help: "Age of the oldest delivery that was accepted and has had no attempt; 0 when there is none",
    registers: [register],
  }),
  mostOverdue: new Gauge({
    name: "signet_most_overdue_seconds",
    help: "How long the retry that is overdue longest has been due; 0 when none is",
    registers: [register],
  }),
  lateDeliveries: new Gauge({
    name: "signet_late_deliveries",
    help: "Deliveries that are overdue by more than a minute although their workflow is open",
    registers: [register],
  }),
  movedDeliveries: new Counter({
    name: "signet_moved_deliveries_total",
    help: "Deliveries that were carried again because their workflow was gone",
    registers: [register],
  }),
  checkpointSize: new Gauge({
    name: "signet_checkpoint_entries",
    help: "Entries of the compliance log under the newest signed checkpoint",
    registers: [register],
  }),
  checkpointRefused: new Gauge({
    name: "signet_checkpoint_refused",
    help: "1 while the compliance log does not extend what was signed of it, so that nothing is signed",
    registers: [register],
  }),
  rateLimited: new Counter({
    name: "signet_rate_limited_total",
    help: "Requests refused with 429 RATE_LIMITED, by limit",
    labelNames: ["limit"],
    registers: [register],
  }),
  rotationsPutOff: new Counter({
    name: "signet_rotations_put_off_total",
    help: "Token answers that could not do their step of a rotation, for instance on a read-only database",
    registers: [register],
  }),
  lateSecretUses: new Counter({
    name: "signet_late_secret_uses_total",
    help: "Client secrets used although they are over, at most one a day and version: rescue yields a token, misuse does not",
    labelNames: ["use"],
    registers: [register],
  }),
  overdueCredentials: new Gauge({
    name: "signet_overdue_credentials",
    help: "Credentials whose rotation has been due for a week or more and is not acknowledged",
    registers: [register],
  }),
  revocationAge: new Gauge({
    name: "signet_revocation_age_seconds",
    help: "Time since this process surely knew every revocation; tokens are refused when it is too long",
    registers: [register],
  }),
  revocationPropagation: new Histogram({
    name: "signet_revocation_propagation_seconds",
    help: "Time from a revocation to the acknowledgement of the slowest process that follows",
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25],
    registers: [register],
  }),
  revocationUnacknowledged: new Counter({
    name: "signet_revocation_unacknowledged_total",
    help: "Processes that had not acknowledged a revocation within 250 ms; without that they admit nobody by then",
    registers: [register],
  }),
  revocationSequence: new Gauge({
    name: "signet_revocation_sequence",
    help: "Number of the last revocation that this process knows",
    registers: [register],
  }),
  revocationServingStale: new Gauge({
    name: "signet_revocation_serving_stale",
    help: "1 while tokens are admitted although a revocation of more than 250 ms ago may be unknown (bounded mode)",
    registers: [register],
  }),
  revocationStale: new Counter({
    name: "signet_revocation_stale_total",
    help: "Requests refused with REVOCATION_STALE",
    registers: [register],
  }),
  edgeRequests: new Counter({
    name: "signet_edge_requests_total",
    help: "Requests at the edge by route pattern, status and who answered: edge or upstream",
    labelNames: ["route", "status", "by"],
    registers: [register],
  }),
  edgeUpstream: new Histogram({
    name: "signet_edge_upstream_seconds",
    help: "Time from a request's leave for its upstream to the headers of the answer",
    labelNames: ["upstream"],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers: [register],
  }),
  edgeRoutes: new Gauge({
    name: "signet_edge_routes",
    help: "Routes of the table that the edge works with",
    registers: [register],
  }),
  edgeRoutesRefused: new Gauge({
    name: "signet_edge_routes_refused",
    help: "1 while the newest route table cannot be used, and the one before it is kept",
    registers: [register],
  }),
} as const;
