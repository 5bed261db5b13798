/** Targets of the delivery engine on two cores, and whether a run met them. */
import type { Measurement } from "./measurement.ts";
import { type Figure, SIGNET } from "./peers.ts";
import { EXPONENT_MAX } from "#test/support/growth.ts";
import { type Promised, PROMISES } from "../scenarios/growth/promises.ts";

export interface TargetResult {
  readonly target: string;
  readonly wanted: string;
  readonly got: number;
  readonly met: boolean;
}

interface Limit {
  readonly target: string;
  readonly atLeast?: number;
  readonly atMost?: number;
  /** Undefined if the run did not measure it. */
  readonly read: (run: MeasuredRun) => number | undefined;
}

export interface MeasuredRun {
  readonly measurements: readonly Measurement[];
  readonly findings: Readonly<Record<string, unknown>>;
}

type Read = (measurement: Measurement) => number | undefined;

const totalCpu: Read = ({ cpu_s_per_1000: cpu }) => cpu["total"];
const p50: Read = ({ latency_ms: latency }) => latency.p50;
const p99: Read = ({ latency_ms: latency }) => latency.p99;
const rate: Read = ({ deliveries_per_second: perSecond }) => perSecond;

function note(name: string): Read {
  return ({ notes }) => (typeof notes[name] === "number" ? notes[name] : undefined);
}

function named(name: string, read: Read): Limit["read"] {
  return ({ measurements }) => {
    const found = measurements.find((measurement) => measurement.name === name);
    return found === undefined ? undefined : read(found);
  };
}

/** Reads from the fastest measurement with that prefix: any number of connections may saturate. */
function fastest(beginning: string, read: Read): Limit["read"] {
  return ({ measurements }) => {
    const [best] = measurements
      .filter(({ name }) => name.startsWith(beginning))
      .sort((a, b) => b.deliveries_per_second - a.deliveries_per_second);
    return best === undefined ? undefined : read(best);
  };
}

function overAll(read: Read, sum: (values: readonly number[]) => number): Limit["read"] {
  return ({ measurements }) =>
    measurements.length === 0 ? undefined : sum(measurements.map((measurement) => read(measurement) ?? 0));
}

/** Reads a figure from `findings` by its path, for scenarios that measure no deliveries. */
function found(...names: readonly string[]): Limit["read"] {
  return ({ findings }) => {
    let value: unknown = findings;
    for (const name of names) {
      value = (value as Readonly<Record<string, unknown>> | undefined)?.[name];
    }
    return typeof value === "number" ? value : undefined;
  };
}

/** Signet's figure under a load, as a multiple of the peer's. */
function timesPeer(load: string, peer: string, figure: Figure): Limit["read"] {
  return found("peers", "ratios", load, peer, figure, "median");
}

const BESIDE_PEERS: readonly Limit[] = [
  { target: "peers, 50/s: p50, times Svix's", atMost: 1.5, read: timesPeer("open_50", "svix", "p50_ms") },
  {
    target: "peers, 50/s: p99 ms",
    atMost: 40,
    read: found("peers", "figures", "open_50", SIGNET, "p99_ms", "median"),
  },
  {
    target: "peers, 50/s: CPU, times Svix's",
    atMost: 1.5,
    read: timesPeer("open_50", "svix", "cpu_s_per_1000"),
  },
  { target: "peers, 200/s: p50, times Svix's", atMost: 1.5, read: timesPeer("open_200", "svix", "p50_ms") },
  {
    target: "peers, 200/s: CPU, times Outpost's",
    atMost: 1.2,
    read: timesPeer("open_200", "outpost", "cpu_s_per_1000"),
  },
  {
    target: "peers, saturation with 64 connections: rate, times Outpost's",
    atLeast: 1.5,
    read: timesPeer("saturation_64", "outpost", "per_second"),
  },
  {
    target: "peers, saturation with 64 connections: CPU, times Outpost's",
    atMost: 0.8,
    read: timesPeer("saturation_64", "outpost", "cpu_s_per_1000"),
  },
  ...(["refused", "lost", "doubled"] as const).map((count) => ({
    target: `peers, all loads: ${count} by Signet`,
    atMost: 0,
    read: found("peers", "counts", SIGNET, count),
  })),
];

const GROWTH: readonly Limit[] = Object.entries<Promised>(PROMISES).flatMap(([axis, { costs }]) =>
  Object.entries(costs).map(([cost, growth]) => ({
    target: `growth with ${axis}, ${growth}: exponent of ${cost}`,
    atMost: EXPONENT_MAX[growth],
    read: found("growth", axis, "exponents", cost),
  })),
);

const LIMITS: readonly Limit[] = [
  ...BESIDE_PEERS,
  {
    target: "hostile address, growth of the api's RSS, MiB",
    atMost: 64,
    read: found("hostile", "rss_growth_mib"),
  },
  { target: "hostile address, /healthz at worst, ms", atMost: 250, read: found("hostile", "healthz_max_ms") },
  {
    target: "hostile address, publish p99 of another tenant, times quiet",
    atMost: 3,
    read: found("hostile", "publish_p99_ratio"),
  },
  {
    target: "saturation of 10 endpoints, deliveries/s",
    atLeast: 2_200,
    read: fastest("saturation-10-", rate),
  },
  { target: "… CPU-s per 1,000", atMost: 0.9, read: fastest("saturation-10-", totalCpu) },
  {
    target: "saturation of 1,000 endpoints, deliveries/s",
    atLeast: 2_200,
    read: fastest("saturation-1000-", rate),
  },
  { target: "… CPU-s per 1,000", atMost: 0.9, read: fastest("saturation-1000-", totalCpu) },
  { target: "50/s: p50 ms", atMost: 35, read: named("open-50", p50) },
  { target: "50/s: p99 ms", atMost: 80, read: named("open-50", p99) },
  { target: "50/s: CPU-s per 1,000", atMost: 14, read: named("open-50", totalCpu) },
  { target: "200/s: p50 ms", atMost: 40, read: named("open-200", p50) },
  { target: "200/s: p99 ms", atMost: 100, read: named("open-200", p99) },
  { target: "200/s: CPU-s per 1,000", atMost: 5, read: named("open-200", totalCpu) },
  { target: "lone delivery: p50 ms", atMost: 10, read: named("lone", p50) },
  {
    target: "tokens/s with ES256, times oidc-provider's",
    atLeast: 1.8,
    read: found("tokens", "times_oidc_provider"),
  },
  {
    target: "tokens/s over mutual TLS, share of plain",
    atLeast: 0.7,
    read: found("tokens", "mutual_tls_share"),
  },
  { target: "tokens at half of saturation: p99 ms", atMost: 15, read: found("tokens", "half_p99_ms") },
  {
    target: "edge beside a bare proxy: added p50 ms, one token",
    atMost: 0.15,
    read: found("edge", "added_p50_ms"),
  },
  { target: "… 10,000 distinct tokens", atMost: 0.3, read: found("edge", "added_p50_distinct_ms") },
  { target: "… share of its requests/s", atLeast: 0.8, read: found("edge", "share") },
  { target: "… over mutual TLS", atLeast: 0.8, read: found("edge", "share_mutual_tls") },
  { target: "… false 503 at saturation", atMost: 0, read: found("edge", "false_stale") },
  {
    target: "revocation before 100 followers: p99 ms to each",
    atMost: 25,
    read: found("revocation", "spread", "ms_to_each", "p99"),
  },
  { target: "… at most", atMost: 250, read: found("revocation", "spread", "ms_to_each", "max") },
  {
    target: "… last admission behind a frozen line, ms",
    atMost: 250,
    read: found("revocation", "frozen", "last_admission_ms", "max"),
  },
  {
    target: "rotation of endpoint secrets under 200/s: lost",
    atMost: 0,
    read: found("rotation", "lost"),
  },
  {
    target: "… refused by a receiver that knows one of the two",
    atMost: 0,
    read: found("rotation", "failed"),
  },
  {
    target: "256 KiB to ten endpoints: MB/s of one worker",
    atLeast: 50,
    read: found("large_bodies_10", "mb_per_second"),
  },
  {
    target: "… resident set of the worker at most, MiB",
    atMost: 512,
    read: found("large_bodies_10", "worker_rss_peak_mib"),
  },
  { target: "client package: packed kB", atMost: 100, read: found("packages", "client", "packed_kb") },
  {
    target: "command line's package: unpacked kB",
    atMost: 5_000,
    read: found("packages", "cli", "unpacked_kb"),
  },
  { target: "… CPU-s of a start", atMost: 0.25, read: found("packages", "version_cpu_s") },
  { target: "address policy: µs per check", atMost: 5, read: found("egress", "check_us") },
  {
    target: "… connections from hostile URLs",
    atMost: 0,
    read: found("egress", "hostile", "connections"),
  },
  {
    target: "compliance log: appends/s",
    atLeast: 1_000,
    read: found("compliance", "best_appends_per_second"),
  },
  {
    target: "compliance log: entries verified/s",
    atLeast: 100_000,
    read: found("compliance", "best_verified_per_second"),
  },
  {
    target: "bulk replay of 10,000 dead letters: per second",
    atLeast: 500,
    read: found("dead_letters", "replayed_per_second"),
  },
  {
    target: "page of 100 of 1,000,000 dead letters: p99 ms",
    atMost: 20,
    read: found("dead_letters", "page_ms", "p99"),
  },
  { target: "… in groups: p99 ms", atMost: 200, read: found("dead_letters", "groups_ms", "p99") },
  {
    target: "portal's home with 1,000,000 deliveries: p95 ms",
    atMost: 50,
    read: found("portal", "home_ms", "p95"),
  },
  { target: "… list of endpoints: p95 ms", atMost: 50, read: found("portal", "endpoints_ms", "p95") },
  { target: "… one endpoint: p95 ms", atMost: 50, read: found("portal", "endpoint_ms", "p95") },
  { target: "… its last 24 hours: p95 ms", atMost: 50, read: found("portal", "endpoint_hours_ms", "p95") },
  { target: "… deliveries: p95 ms", atMost: 50, read: found("portal", "deliveries_ms", "p95") },
  ...(["endpoint", "rare_endpoint", "rare_type"] as const).map((one) => ({
    target: `… deliveries of one ${one.replace("_", " ")}: p95 ms`,
    atMost: 50,
    read: found("portal", `deliveries_of_${one}_ms`, "p95"),
  })),
  ...(["delivered", "queued", "retrying", "cancelled", "expired"] as const).map((state) => ({
    target: `… ${state} deliveries: p95 ms`,
    atMost: 50,
    read: found("portal", `deliveries_${state}_ms`, "p95"),
  })),
  { target: "… one delivery: p95 ms", atMost: 50, read: found("portal", "delivery_ms", "p95") },
  ...(
    [
      "dead_letters",
      "events",
      "event",
      "event_types",
      "recover",
      "replays",
      "credentials",
      "compliance",
      "search",
    ] as const
  ).map((page) => ({
    target: `… ${page.replace("_", " ")}: p95 ms`,
    atMost: 50,
    read: found("portal", `${page}_ms`, "p95"),
  })),
  { target: "… largest page with its files, bytes", atMost: 102_400, read: found("portal", "most_bytes") },
  ...(["api", "console"] as const).map((what) => ({
    target: `operators' overview of 100,000 endpoints (${what}): p95 ms`,
    atMost: 100,
    read: found("overview", `${what}_ms`, "p95"),
  })),
  {
    target: "receiver down: ingest/s",
    // Slightly below 250/s, because the clock has millisecond resolution.
    atLeast: 249,
    read: named("failing-receiver", ({ published_per_second: published }) => published),
  },
  {
    target: "receiver down: p95 of a healthy endpoint, times its quiet p95",
    atMost: 2,
    read: named("failing-receiver", note("healthy_p95_ratio")),
  },
  {
    target: "worst of five neighbours: p95, times the quiet p95",
    atMost: 1.5,
    read: found("noisy_neighbour", "worst", "p95"),
  },
  {
    target: "worst of five neighbours: p99, times the quiet p99",
    atMost: 2,
    read: found("noisy_neighbour", "worst", "p99"),
  },
  {
    target: "worst of two wide neighbours: p99 of answers, times the quiet p99",
    atMost: 2,
    read: found("wide_neighbour", "worst", "ack_p99"),
  },
  {
    target: "verification beside 100 receivers that hang: slowest, ms",
    atMost: 2_000,
    read: found("verification", "beside_hanging_max_ms"),
  },
  ...GROWTH,
  {
    target: "api and worker together, highest MiB of all scenarios",
    atMost: 500,
    read: overAll(
      // Not where several of each run.
      ({ signet_pss_peak_mib: mib, memory_pss_mib: of }) => ("signet_worker_2" in of ? 0 : mib),
      (values) => Math.max(...values),
    ),
  },
  {
    target: "lost, all scenarios",
    atMost: 0,
    read: overAll(
      ({ lost }) => lost,
      (values) => values.reduce((a, b) => a + b, 0),
    ),
  },
];

/** Returns the results of all targets that the run measured. */
export function checkTargets(run: MeasuredRun): TargetResult[] {
  return LIMITS.flatMap(({ target, atLeast = Number.NEGATIVE_INFINITY, atMost, read }) => {
    const got = read(run);
    if (got === undefined) {
      return [];
    }
    const wanted = atMost === undefined ? `≥ ${atLeast}` : `≤ ${atMost}`;
    return [{ target, wanted, got, met: got >= atLeast && got <= (atMost ?? Number.POSITIVE_INFINITY) }];
  });
}
