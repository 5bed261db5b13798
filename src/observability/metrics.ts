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
} as const;
