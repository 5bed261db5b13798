/** What the portal says of a replay: green is for what was delivered. */
import { expect, test } from "vitest";
import type { ReplayJob, ReplayOutcomes } from "#lib/client/api-types.ts";
import { allWouldFail, resultBadge, wouldFailText } from "#portal/pages/replays.ts";
import { html } from "#portal/html.ts";

const NONE: ReplayOutcomes = { delivered: 0, retrying: 0, failed: 0, cancelled: 0, waiting: 0 };

function job(changed: Partial<ReplayJob>): ReplayJob {
  return {
    id: "rpl_1",
    kind: "dead_letters",
    endpoint_id: null,
    states: null,
    state: "COMPLETED",
    total: 3,
    listing: false,
    done: 3,
    failed: 0,
    skipped: 0,
    rate_per_second: 500,
    created_at: "2026-11-28T00:00:00.000Z",
    finished_at: null,
    ...changed,
  };
}

test.each<readonly [string, string, Partial<ReplayJob>, Partial<ReplayOutcomes>]>([
  ["good", "delivered", {}, { delivered: 3 }],
  ["good", "delivered", { skipped: 1, done: 2 }, { delivered: 2 }],
  ["bad", "nothing delivered", { done: 0, failed: 3 }, {}],
  ["bad", "nothing delivered", {}, { failed: 3 }],
  ["bad", "nothing delivered", {}, { cancelled: 3 }],
  ["bad", "partly delivered", { done: 2, failed: 1 }, { delivered: 2 }],
  ["bad", "partly delivered", {}, { delivered: 2, failed: 1 }],
  ["wait", "nothing delivered so far", {}, { waiting: 3 }],
  ["wait", "nothing delivered so far", {}, { retrying: 2, failed: 1 }],
  ["wait", "partly delivered so far", {}, { delivered: 1, retrying: 2 }],
  ["idle", "all skipped", { done: 0, skipped: 3 }, {}],
  ["idle", "nothing matched", { total: 0, done: 0 }, {}],
  ["wait", "running", { state: "RUNNING" }, { delivered: 3 }],
  ["idle", "cancelled", { state: "CANCELLED" }, { delivered: 3 }],
])(
  "a completed replay is green only if something was delivered, and nothing failed or waits: %s, %s",
  (kind, text, changed, outcomes) => {
    const badge = resultBadge(job(changed), { ...NONE, ...outcomes }).text;
    expect(badge).toContain(`class="badge ${kind}"`);
    expect(badge).toContain(text);
  },
);

test("without its outcomes, as in a list, a completed replay is not green", () => {
  expect(resultBadge(job({}), undefined).text).toContain('class="badge idle"');
});

test("what would fail is said before a replay starts, and a replay of nothing else cannot start", () => {
  const count = { dry_run: true, total: 3 } as const;
  const text = (would_fail?: number): string =>
    html`${wouldFailText({ ...count, ...(would_fail === undefined ? {} : { would_fail }) })}`.text;
  expect(text()).toBe("");
  expect(text(2)).toContain("2 of them would fail");
  expect(text(3)).toContain("All of them would fail");
  expect(allWouldFail({ ...count, would_fail: 3 })).toBe(true);
  expect(allWouldFail({ ...count, would_fail: 2 })).toBe(false);
  // More could match than were compared.
  expect(allWouldFail({ ...count, would_fail: 3, at_least: true })).toBe(false);
});
