/** The axes along which a deployment grows: what is measured on each, and how its cost is promised to grow. */
import type { Growth } from "#test/support/growth.ts";

export interface Promised {
  /** What one unit of the axis is. */
  readonly of: string;
  /** How each cost grows, by its name. */
  readonly costs: Readonly<Record<string, Growth>>;
}

/** The one table of promises. CPU is of api, worker, Temporal and PostgreSQL together. */
export const PROMISES = {
  tenants: {
    of: "tenants that publish, and one waiting delivery of each for the claim",
    costs: { cpu_s_per_1000: "flat", claim_ms: "flat" },
  },
  fan_out: {
    of: "endpoints of a tenant that match each event; CPU of deliveries",
    costs: { cpu_s_per_1000: "flat", match_ms: "linear" },
  },
  other_endpoints: {
    of: "endpoints of a tenant of which one matches each event",
    costs: { cpu_s_per_1000: "linear", match_ms: "linear" },
  },
  payload: { of: "bytes of an event's data", costs: { cpu_s_per_1000: "linear", signet_mib: "linear" } },
  history: {
    of: "finished deliveries of 30 days",
    costs: { cpu_s_per_1000: "flat", list_ms: "flat", api_start_ms: "flat" },
  },
  backlog: {
    of: "deliveries that wait while their tenants are held; the claim after an ANALYZE that saw 20 of them wait",
    costs: {
      in_cpu_s_per_1000: "flat",
      out_cpu_s_per_1000: "flat",
      out_s_per_1000: "flat",
      claim_ms: "flat",
    },
  },
  dead_letters: {
    of: "dead letters without workflows, beside saturation",
    costs: { cpu_s_per_1000: "flat", list_ms: "flat", groups_ms: "flat" },
  },
  retries: {
    of: "open retries without workflows, beside saturation",
    costs: { cpu_s_per_1000: "flat", list_ms: "flat" },
  },
  credentials: { of: "credentials of a tenant, one of which gets tokens", costs: { cpu_s_per_1000: "flat" } },
  revocations: {
    of: "tokens that are revoked and have not expired",
    costs: {
      publish_ms: "flat",
      snapshot_ms: "linear",
      status_list_ms: "linear",
      api_start_ms: "linear",
      edge_start_ms: "linear",
      edge_mib: "linear",
    },
  },
  edges: {
    of: "followers behind one hub",
    costs: { hub_cpu_percent: "linear", hub_questions_per_s: "flat" },
  },
  workers: {
    of: "workers and apis; on few cores each of them costs more at saturation",
    costs: { idle_cpu_percent: "linear", cpu_s_per_1000: "linear" },
  },
} as const satisfies Readonly<Record<string, Promised>>;

export type AxisName = keyof typeof PROMISES;

/** The costs of an axis at one size. */
export type Costs<Name extends AxisName> = Readonly<Record<keyof (typeof PROMISES)[Name]["costs"], number>>;
