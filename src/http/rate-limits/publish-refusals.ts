/**
 * Notes whose publishes an api refuses with 429 or 503. Too many tenants for a label: the metric has the share of the
 * tenant that is refused most, and the log names the tenants.
 */
import type { FastifyReply, FastifyRequest } from "fastify";
import { putBounded } from "#domain/bounded-map.ts";
import type { Identity } from "#domain/identity.ts";
import type { Logger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";

const EVERY_MS = 60_000;
const TENANTS_MAX = 10_000;
/** Events of a minute. The share of fewer says little. */
const FEW = 20;
/** Share at which a tenant is named. The alert has the same. */
const NAMED_SHARE = 0.05;
const NAMED_MAX = 3;

/** Whether a status refuses what could be accepted at another time. */
export function isRefusal(status: unknown): boolean {
  return status === 429 || status === 503;
}

class PublishRefusals {
  readonly #counts = new Map<string, { readonly events: number; readonly refused: number }>();

  /**
   * Counts events of a tenant, and those of them that were refused.
   *
   * @param outcomes of each event; an `error` has the status that a request of its own would have
   */
  note(tenantId: string, outcomes: readonly object[]): void {
    const { events, refused } = this.#counts.get(tenantId) ?? { events: 0, refused: 0 };
    const now = outcomes.filter(
      (outcome) => "error" in outcome && isRefusal((outcome.error as { readonly status?: unknown }).status),
    );
    const count = { events: events + outcomes.length, refused: refused + now.length };
    putBounded(this.#counts, tenantId, count, TENANTS_MAX);
  }

  /** Sets the metric, names the tenants that are refused most, and begins again. */
  report(log: Logger): void {
    const shares = [...this.#counts]
      .filter(([, { events }]) => events >= FEW)
      .map(([tenantId, { events, refused }]) => ({ tenantId, events, refused, share: refused / events }))
      .sort((a, b) => b.share - a.share);
    this.#counts.clear();
    metrics.refusedPublishes.set(shares[0]?.share ?? 0);
    for (const { tenantId, events, refused } of shares
      .filter(({ share }) => share > NAMED_SHARE)
      .slice(0, NAMED_MAX)) {
      log.warn({ tenant_id: tenantId, refused, count: events }, "events of a tenant are refused");
    }
  }

  /** The job that reports every minute. */
  job(log: Logger): UpkeepJob {
    return {
      name: "refused publishes",
      everyMs: EVERY_MS,
      run: async () => await Promise.resolve(this.report(log)),
    };
  }
}

/** Those of this process, as the metrics are. */
export const publishRefusals = new PublishRefusals();

/** Counts a request that was refused as a whole; a hook of the route that publishes. */
export function noteRefusedRequest(
  request: Pick<FastifyRequest, "identity">,
  { statusCode: status }: Pick<FastifyReply, "statusCode">,
  done: () => void,
): void {
  // Before authentication there is none.
  const identity = request.identity as Identity | undefined;
  if (isRefusal(status) && identity !== undefined) {
    publishRefusals.note(identity.tenantId, [{ error: { status } }]);
  }
  done();
}
