/** The explanation of a replay job names how far it has come, what it waits for, and what to do. */
import { describe, expect, test } from "vitest";
import { explainReplay, type ReplayFacts } from "#api/admin/why/explain-others.ts";
import { type Cause, paragraph, type Surroundings } from "#api/admin/why/explanation.ts";
import type { ReplayJob } from "#database/repositories/webhooks/replay-jobs.ts";
import { ago, around, held, noTemporal, noWorker, pause } from "#test/support/surroundings.ts";

describe("a replay job", () => {
  const job: ReplayJob = {
    id: "rpl_1",
    tenant_id: "ten_1",
    kind: "dead_letters",
    endpoint_id: null,
    states: null,
    state: "RUNNING",
    rate_per_second: 4,
    total: 500,
    done: 90,
    failed: 2,
    skipped: 8,
    position: 100,
    created_at: ago(60),
    listing: null,
    finished_at: null,
  };

  test.each<readonly [Cause, Partial<ReplayJob>, Partial<ReplayFacts>, Surroundings, string]>([
    ["replay_running", {}, {}, around, "the 400 that are left take 1 min 40 s or longer"],
    ["replay_paused", { state: "PAUSED" }, {}, around, "signet replay resume rpl_1"],
    [
      "workflow_paused",
      {},
      { pause },
      around,
      "Its workflow replay/rpl_1 is paused in Temporal since 2026-11-25 02:50:00 UTC (10 min ago), so nothing more is replayed.",
    ],
    ["workflow_paused", { state: "PAUSED" }, { pause }, around, "unpause --namespace signet"],
    ["tenant_held", {}, { pause }, held, "signet tenant release ten_1"],
    ["no_worker", {}, {}, noWorker, "No worker is alive"],
    ["temporal_unreachable", {}, {}, noTemporal, "Temporal is unreachable"],
    ["cancelled", { state: "CANCELLED", finished_at: ago(30) }, {}, held, "stays replayed"],
    [
      "replay_completed",
      { state: "COMPLETED", finished_at: ago(30) },
      {},
      noWorker,
      "It ended 2026-11-25 02:59:30 UTC (30 s ago). Its tenant sees what could not be replayed with: signet replay items rpl_1",
    ],
    [
      "replay_completed",
      { state: "COMPLETED", failed: 0, finished_at: ago(1) },
      {},
      around,
      "signet replay show rpl_1",
    ],
  ])("is explained by %s (%#)", (...[cause, changed, facts, surroundings, part]) => {
    const explanation = explainReplay(
      { job: { ...job, ...changed }, pause: undefined, ...facts },
      surroundings,
    );
    expect(explanation.cause).toBe(cause);
    const text = paragraph(explanation);
    expect(text).toContain(part);
    expect(text).toContain("Replay job rpl_1 was created 2026-11-25 02:59:00 UTC (1 min ago)");
    expect(text).toContain("Of 500 deliveries or events, 90 were replayed, 8 were skipped, and");
    expect(text).not.toMatch(/undefined|null| {2}/);
  });
});
