/** Dead letters and replays in the portal, in a real browser, by role and label, with and without JavaScript. */
import { readFile } from "node:fs/promises";
import type { Locator } from "playwright-core";
import { describe, expect, test } from "vitest";
import { clickThrough, NO_BROWSER } from "../support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import { READERS, useJourney } from "../support/portal-journey.ts";
import { seedDeadLetters } from "../support/seeded-letters.ts";
import { publish, rows, sql } from "../support/tenant.ts";

allowMinutes(4);

const SCOPES = [
  "portal:sign_in",
  "webhooks:read",
  "webhooks:write",
  "webhooks:replay",
  "events:publish",
  "events:read",
];
/** Letters of bulk replays: first at a rate that leaves time to pause and cancel, then at the unlimited rate. */
const MANY = 1_500;

/** Sorts exported letters by the number in their events. */
function byRun(one: object, other: object): number {
  const runOf = (letter: object): number => (letter as { event: { data: { run: number } } }).event.data.run;
  return runOf(one) - runOf(other);
}

describe.skipIf(NO_BROWSER).each(READERS)("dead letters in the portal $name", ({ javaScript }) => {
  const journey = useJourney({ javaScript, scopes: SCOPES, environment: { SIGNET_RETRY_WINDOW_MS: "2000" } });
  const region = (name: string): Locator => journey.page.getByRole("region", { name, exact: true });
  const groups = (): Locator => region("Dead letters by endpoint and failure");
  const letters = (): Locator =>
    region("Dead letters")
      .getByRole("row")
      .filter({ has: journey.page.getByRole("cell") });
  const progress = (): Locator => journey.page.getByRole("progressbar");
  const query = async (text: string, values: unknown[]): Promise<unknown> =>
    await sql(journey.api, text, values);

  async function untilGroups(counts: readonly number[]): Promise<void> {
    const wanted = [...counts].sort((a, b) => a - b);
    await eventually(
      async () => {
        const found = rows(await journey.tenant.get("/v1/webhooks/dlq/groups")).map(({ count }) =>
          Number(count),
        );
        return JSON.stringify(found.sort((a, b) => a - b)) === JSON.stringify(wanted);
      },
      `groups of ${counts.join(", ")}`,
    );
  }
  async function untilProgress(text: string): Promise<void> {
    await journey.until(
      async () => (await journey.page.getByRole("heading", { level: 2 }).innerText()).includes(text),
      `a replay that is ${text}`,
    );
  }

  test("an empty queue and an empty list of replays explain what they will show", async () => {
    await journey.follow("Dead letters");
    expect(await journey.heading()).toBe("Dead letters");
    expect(await journey.page.getByText("after 17 failed attempts").count()).toBe(1);
    await journey.check("dead-letters-empty");
    await journey.follow("Replays");
    await journey.check("replays-empty");
    await journey.open("");
    expect(await journey.page.getByText("No deliveries. Attempts").count()).toBe(1);
    await journey.check("home-quiet");
  });

  test("the queue is grouped by endpoint and failure, and each letter shows how long it can be replayed", async () => {
    const { receiver, page, tenant, api } = journey;
    const billing = await journey.addEndpoint("/billing", ["inference.completed"]);
    await journey.addEndpoint("/audit", ["pipeline.failed"]);
    receiver.answer(({ path }) =>
      path === "/audit" ? { kind: "reset" } : { kind: "answer", status: 500, body: "out of order" },
    );
    await publish(tenant, { data: { run: 1 } });
    await publish(tenant, { data: { run: 2 } });
    await publish(tenant, { type: "pipeline.failed" });
    await seedDeadLetters(
      { query },
      { tenantId: tenant.tenantId, endpointId: billing, count: 3, error: "timeout" },
    );
    await untilGroups([2, 1, 3]);
    await journey.open("/dead-letters");
    const failed = groups().getByRole("row").filter({ hasText: "HTTP error" });
    expect(await failed.innerText()).toMatch(/\/billing[^]*17 attempts failed[^]*2/);
    expect(await letters().count()).toBe(6);
    expect(await letters().first().innerText()).toMatch(javaScript ? /in (?:6 d 23 h|7 d)/ : /\d\d:\d\d UTC/);
    await journey.check("dead-letters");
    await clickThrough(failed.getByRole("link"));
    expect(await letters().count()).toBe(2);
    expect(await page.getByLabel("Last failure").inputValue()).toBe("status");
    expect(new URL(page.url()).pathname).toBe("/portal/dead-letters");
    expect(api.publicUrl).toBe(new URL(page.url()).origin);
  });

  test("the filtered letters are exported, one per line", async () => {
    const downloading = journey.page.waitForEvent("download");
    await journey.follow("Export");
    const lines = (await readFile(await (await downloading).path(), "utf8")).trimEnd().split("\n");
    // They died at about the same time.
    expect(lines.map((line) => JSON.parse(line) as object).toSorted(byRun)).toEqual(
      [1, 2].map((run): unknown =>
        expect.objectContaining({
          state: "DEAD_LETTERED",
          last_status: 500,
          event: expect.objectContaining({ data: { run } }),
        }),
      ),
    );
  });

  test("one letter is replayed from its own page and delivered by the new cycle", async () => {
    const { page, receiver } = journey;
    await clickThrough(letters().first().getByRole("link"));
    expect(await page.getByRole("heading", { level: 2, name: /^State/ }).innerText()).toContain(
      "dead letter",
    );
    expect(await page.getByRole("listitem").filter({ hasText: "Attempt" }).count()).toBe(17);
    await journey.check("dead-letter");
    receiver.answer([{ kind: "answer" }]);
    await journey.press("Replay");
    expect(await page.getByRole("status").innerText()).toContain("new cycle of 17");
    await journey.until(
      async () =>
        (await page.getByRole("heading", { level: 2, name: /^State/ }).innerText()).includes("delivered"),
      "the delivery of the replayed letter",
    );
    expect(await page.getByRole("listitem").filter({ hasText: "Attempt 1, cycle 2" }).innerText()).toContain(
      "HTTP 200",
    );
    await journey.check("dead-letter-replayed");
  });

  test("selected letters are replayed as a job; an empty selection is an error", async () => {
    const { page } = journey;
    await untilGroups([1, 1, 3]);
    await journey.open("/dead-letters?last_error=timeout");
    await journey.press("Replay selected");
    expect(await page.getByRole("alert").innerText()).toContain("Select at least one");
    expect(await letters().count()).toBe(3);
    await letters().nth(0).getByRole("checkbox").check();
    await letters().nth(2).getByRole("checkbox").check();
    await journey.press("Replay selected");
    expect(await journey.heading()).toBe("Replay");
    await untilProgress("completed");
    expect(await page.getByText("2 of 2").count()).toBeGreaterThan(0);
    await untilGroups([1, 1, 1]);
  });

  test("with JavaScript all rows of a page are selected at once", async () => {
    await journey.open("/dead-letters");
    const all = journey.page.getByLabel("All 3 on this page");
    expect(await all.count()).toBe(javaScript ? 1 : 0);
    const boxes = letters().getByRole("checkbox");
    // Without scripts each is selected separately.
    for (const box of javaScript ? [all] : await boxes.all()) {
      await box.check();
    }
    expect(await letters().getByRole("checkbox", { checked: true }).count()).toBe(3);
    await boxes.first().uncheck();
    expect(await all.and(journey.page.getByRole("checkbox", { checked: true })).count()).toBe(0);
  });

  test("a bulk replay shows its progress, and can be paused, resumed and cancelled", async () => {
    const { page, tenant, receiver } = journey;
    const made = await tenant.post("/v1/webhooks/endpoints", {
      url: `${receiver.url}/many`,
      events: ["inference.completed"],
    });
    const endpointId = String(made.body["id"]);
    await seedDeadLetters({ query }, { tenantId: tenant.tenantId, endpointId, count: MANY });
    await untilGroups([1, 1, 1, MANY]);
    await journey.open(`/dead-letters?endpoint_id=${endpointId}`);
    await journey.check("dead-letters-many");
    const slow = await tenant.post("/v1/webhooks/dlq/replay", {
      filter: { endpoint_id: endpointId },
      rate_per_second: 20,
    });
    await journey.open(`/replays/${String(slow.body["id"])}`);
    await journey.until(
      async () => Number(await progress().getAttribute("value")) > 100,
      "the first 100 letters of the job",
    );
    await journey.press("Pause");
    await untilProgress("paused");
    expect(await page.getByRole("status").innerText()).toContain("was paused");
    await journey.check("replay-paused");
    await journey.press("Resume");
    await untilProgress("running");
    await journey.check("replay-running");
    await journey.press("Cancel replay");
    await untilProgress("cancelled");
    await journey.open(`/dead-letters?endpoint_id=${endpointId}`);
    await journey.press("Replay all that match the filters");
    expect(await journey.heading()).toBe("Replay dead letters");
    await journey.check("dead-letters-confirm");
    await clickThrough(page.getByRole("button", { name: /^Replay \S+ dead letters$/ }));
    await untilProgress("completed");
    expect(await progress().getAttribute("value")).toBe(await progress().getAttribute("max"));
    await journey.check("replay-completed");
    await journey.follow("All replays");
    expect(await page.getByRole("row").filter({ hasText: "completed" }).count()).toBe(2);
    expect(await page.getByRole("row").filter({ hasText: "cancelled" }).count()).toBe(1);
    await journey.check("replays");
  });

  test("a replay into a disabled endpoint is refused before it starts, and its job says why it delivered nothing", async () => {
    const { page, tenant, receiver } = journey;
    const made = await tenant.post("/v1/webhooks/endpoints", {
      url: `${receiver.url}/disabled`,
      events: ["inference.completed"],
    });
    const endpointId = String(made.body["id"]);
    expect(await tenant.post(`/v1/webhooks/endpoints/${endpointId}/disable`)).toMatchObject({ status: 200 });
    await seedDeadLetters({ query }, { tenantId: tenant.tenantId, endpointId, count: 4 });
    await journey.open(`/dead-letters?endpoint_id=${endpointId}`);
    await journey.press("Replay all that match the filters");
    expect(await page.getByText("All of them would fail").count()).toBe(1);
    expect(await page.getByRole("button", { name: /^Replay / }).count()).toBe(0);
    await journey.check("dead-letters-would-fail");
    const job = await tenant.post("/v1/webhooks/dlq/replay", { filter: { endpoint_id: endpointId } });
    await journey.open(`/replays/${String(job.body["id"])}`);
    await untilProgress("nothing delivered");
    expect(await page.getByText("(endpoint disabled)").count()).toBe(1);
    await journey.check("replay-nothing-delivered");
  });

  test("no page had script errors or policy violations", () => {
    expect(journey.complaints).toEqual([]);
  });
});
