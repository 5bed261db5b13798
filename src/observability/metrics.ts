/** The metrics of our own (Prometheus). Names and labels are public: dashboards and alerts are written against them. */
import { Counter, Gauge, register } from "prom-client";

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
} as const;
