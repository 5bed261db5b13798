/** A receipt: which processes apply a revocation, and whether one that is silent can still admit tokens. Pure: no I/O. */
import { STRICT_BOUND_MS } from "#config/revocation.ts";
import type { FollowerStanding, Propagation } from "#database/repositories/tokens/revocations.ts";

/**
 * `applied`: the process has acknowledged the revocation. `lease_expired`: it has not, but its lease has expired, so it
 * admits no request until it applies the revocation. `pending`: neither is certain.
 */
export const PROCESS_STATES = ["applied", "lease_expired", "pending"] as const;

export type ProcessState = (typeof PROCESS_STATES)[number];

/**
 * `applied`: every process acknowledged in time. `slow_but_safe`: some did not, but no token was admitted after the
 * bound. `pending`: a process may still admit tokens. `unknown`: the receipt could not be read.
 */
export const RECEIPT_OUTCOMES = ["applied", "slow_but_safe", "pending", "unknown"] as const;

export type ReceiptOutcome = (typeof RECEIPT_OUTCOMES)[number];

/** Maximum number of processes that a receipt names, also in the log. */
export const NAMED_MAX = 200;
/** The same in its summary. */
const SPELLED_OUT_MAX = 5;

/** A process named in a receipt. */
export interface ReceiptProcess {
  /** Kind and number, for instance `edge-1f3a9c02`; the process logs it when it starts to follow. */
  readonly id: string;
  /** `edge` or `api`. */
  readonly kind: string;
  /** Null if unknown. */
  readonly region: string | null;
  readonly state: ProcessState;
  /** Upper bound of the time to its acknowledgement, in milliseconds; null without one, or if it started later. */
  readonly ms: number | null;
}

export interface Receipt {
  /** Number of connected processes that admit tokens. */
  readonly live: number;
  /** Number of those that apply the revocation. */
  readonly acked: number;
  /** Time that the slowest of these took, in milliseconds; null if there are none. */
  readonly maxMs: number | null;
  readonly outcome: ReceiptOutcome;
  /** Number of processes whose leases have expired without an acknowledgement. */
  readonly expired: number;
  /** The outcome in one or two sentences, for people. */
  readonly summary: string;
  /** At most 200, those without an acknowledgement first. */
  readonly processes: readonly ReceiptProcess[];
}

/** Returns the id of a process that follows the revocations. It reveals neither host nor address. */
export function processId({ process, lockKey }: Pick<FollowerStanding, "process" | "lockKey">): string {
  return `${process}-${lockKey.toString(16).padStart(8, "0")}`;
}

/**
 * Whether a process cannot admit tokens that it has not checked against the revocation. Any answer that lacks the
 * revocation left the database before the commit, so the lease from it has expired `leaseMs` after the commit.
 *
 * @param sinceCommitMs lower bound of the time since the commit, in milliseconds
 */
function hasExpired({ leaseMs }: FollowerStanding, sinceCommitMs: number): boolean {
  return leaseMs !== null && sinceCommitMs >= leaseMs;
}

/** Whom a revocation's answer waits for: every process, those of the answering api's region, or none. */
export const RECEIPT_WAITS = ["all", "region", "none"] as const;

export type ReceiptWait = (typeof RECEIPT_WAITS)[number];

/**
 * Whether a longer wait would change nothing: the others have acknowledged, or are gone and admit nothing.
 *
 * @param isAwaited whether a process counts
 */
export function isSettled(
  { followers }: Propagation,
  sinceCommitMs: number,
  isAwaited: (follower: FollowerStanding) => boolean = () => true,
): boolean {
  return followers.every(
    (follower) =>
      follower.acked || (!follower.connected && hasExpired(follower, sinceCommitMs)) || !isAwaited(follower),
  );
}

/** Returns the recorded acknowledgement times by process id. */
function recordedTimes(recorded: unknown): ReadonlyMap<string, number | null> {
  const processes = Array.isArray(recorded) ? (recorded as readonly Pick<ReceiptProcess, "id" | "ms">[]) : [];
  return new Map(processes.map(({ id, ms }) => [id, ms]));
}

/** Whether a process acknowledged after the bound although its lease does not cover a longer time. */
function isSlow({ ms, leaseMs }: { readonly ms: number | null; readonly leaseMs: number | null }): boolean {
  return ms !== null && ms > STRICT_BOUND_MS && leaseMs !== null && leaseMs <= STRICT_BOUND_MS;
}

function listed(ids: readonly string[]): string {
  const more = ids.length - SPELLED_OUT_MAX;
  const names = more > 1 ? [...ids.slice(0, SPELLED_OUT_MAX), `${more} more`] : ids;
  const last = names.at(-1) ?? "";
  return names.length < 2 ? last : `${names.slice(0, -1).join(", ")} and ${last}`;
}

interface Named extends ReceiptProcess {
  readonly leaseMs: number | null;
}

function idsOf(processes: readonly Named[]): string {
  return listed(processes.map(({ id }) => id));
}

/** Describes the slow processes that could not admit a token meanwhile. */
function slowButSafe(silent: readonly Named[], slow: readonly Named[]): string {
  const sentences = ["Slow but safe:"];
  if (silent.length > 0) {
    const [lease, it] =
      silent.length === 1 ? ["Its lease has", "it admits"] : ["Their leases have", "they admit"];
    const until = silent.length === 1 ? "it applies" : "they apply";
    sentences.push(
      `${idsOf(silent)} did not acknowledge within ${STRICT_BOUND_MS} ms. ${lease} expired, so ${it} no request until ${until} the revocation.`,
    );
  }
  if (slow.length > 0) {
    const took = Math.max(...slow.map(({ ms }) => ms ?? 0));
    const lease = slow.length === 1 ? "Its lease had expired, so it" : "Their leases had expired, so they";
    sentences.push(
      `${idsOf(slow)} acknowledged after ${took} ms. ${lease} admitted no request between ${STRICT_BOUND_MS} ms and the acknowledgement.`,
    );
  }
  return sentences.join(" ");
}

function allApplied(applied: readonly Named[], maxMs: number | null): string {
  if (applied.length === 0) {
    return "No process that admits tokens is connected.";
  }
  const who = applied.length === 1 ? "The only process" : `All ${applied.length} processes`;
  return `${who} applied the revocation${maxMs === null ? "" : ` within ${maxMs} ms`}.`;
}

function pending(processes: readonly Named[]): string {
  const leases = processes.map(({ leaseMs }) => leaseMs);
  const most = leases.includes(null) ? "" : ` for up to ${Math.max(...leases.map((ms) => ms ?? 0))} ms`;
  return `Not certain yet: ${idsOf(processes)} did not acknowledge and may still admit tokens${most}. Repeat the request for the current receipt.`;
}

/** Returns outcome and summary. */
function conclude(processes: readonly Named[], maxMs: number | null): Pick<Receipt, "outcome" | "summary"> {
  const inState = (wanted: ProcessState): readonly Named[] =>
    processes.filter(({ state }) => state === wanted);
  const waiting = inState("pending");
  if (waiting.length > 0) {
    return { outcome: "pending", summary: pending(waiting) };
  }
  const silent = inState("lease_expired");
  const slow = processes.filter(isSlow);
  return silent.length + slow.length > 0
    ? { outcome: "slow_but_safe", summary: slowButSafe(silent, slow) }
    : { outcome: "applied", summary: allApplied(processes, maxMs) };
}

/**
 * Returns the receipt of a committed revocation.
 *
 * @param sinceCommitMs lower bound of the time since the commit, in milliseconds
 */
export function receiptOf(propagation: Propagation, sinceCommitMs: number): Receipt {
  const { followers, slowestMs, recorded } = propagation;
  const times = recordedTimes(recorded);
  const named = followers.map((follower): Named => {
    const id = processId(follower);
    const { process: kind, region, leaseMs, acked } = follower;
    const silent = hasExpired(follower, sinceCommitMs) ? "lease_expired" : "pending";
    const ms = follower.ms ?? (acked ? (times.get(id) ?? null) : null);
    return { id, kind, region, state: acked ? "applied" : silent, ms, leaseMs };
  });
  const live = followers.filter(({ connected }) => connected);
  const measured = followers.flatMap(({ connected, ms }) => (connected && ms !== null ? [ms] : []));
  const maxMs = slowestMs ?? (measured.length === 0 ? null : Math.max(...measured));
  const isApplied = ({ state }: ReceiptProcess): number => Number(state === "applied");
  return {
    live: live.length,
    acked: live.filter(({ acked }) => acked).length,
    maxMs,
    expired: named.filter(({ state }) => state === "lease_expired").length,
    ...conclude(named, maxMs),
    processes: named
      .toSorted((one, other) => isApplied(one) - isApplied(other))
      .slice(0, NAMED_MAX)
      .map(({ leaseMs: _unstated, ...process }) => process),
  };
}

/** The receipt of a revocation whose followers could not be read. The revocation itself is in effect. */
export const UNKNOWN_RECEIPT: Receipt = {
  live: 0,
  acked: 0,
  maxMs: null,
  expired: 0,
  outcome: "unknown",
  summary:
    "The revocation is in effect, but the receipt could not be read. Repeat the request for the current receipt.",
  processes: [],
};
