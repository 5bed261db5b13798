/**
 * Actions on an endpoint, in a real browser, by role and label: grading its receiver, sending a custom event, and counting
 * and sending missed events. With and without JavaScript.
 */
import type { Locator } from "playwright-core";
import { describe, expect, test } from "vitest";
import { NO_BROWSER, openBrowser, sizesOf } from "../support/browser.ts";
import { allowMinutes } from "../support/limits.ts";
import { READERS, useJourney } from "../support/portal-journey.ts";
import { publish, rows } from "../support/tenant.ts";

allowMinutes(4);

const SCOPES = [
  "portal:sign_in",
  "webhooks:read",
  "webhooks:write",
  "webhooks:replay",
  "events:publish",
  "events:read",
];
/** Size limit of a page with all its files, in bytes. */
const PAGE_MAX = 102_400;
const MISSED = 40;

describe.skipIf(NO_BROWSER).each(READERS)("actions on an endpoint $name", ({ javaScript }) => {
  const journey = useJourney({ javaScript, scopes: SCOPES });
  let endpoint = "";
  let grade = "";
  const page = () => journey.page;
  const heading = (): Locator => page().getByRole("heading", { level: 2 }).first();
  const region = (name: string): Locator => page().getByRole("region", { name, exact: true });

  async function untilHeading(text: string): Promise<void> {
    await journey.until(async () => (await heading().innerText()).includes(text), `the heading ${text}`);
  }

  test("a custom event starts from an example, shows errors beside its field, and arrives as typed", async () => {
    const { receiver, tenant } = journey;
    await tenant.post("/v1/webhooks/event-types", {
      name: "inference.completed",
      description: "A run has ended",
      schema: { type: "object", required: ["run"], properties: { run: { type: "integer" } } },
      examples: [{ run: 7, model: "signet-1", tokens: { input: 12, output: 480 } }],
    });
    endpoint = await journey.addEndpoint("/hooks", ["inference.completed"]);
    await journey.open(`/endpoints/${endpoint}`);
    await journey.follow("Send a custom event");
    expect(await journey.heading()).toBe("Send a test event");
    expect(await page().getByLabel("Event type").inputValue()).toBe("inference.completed");
    expect(JSON.parse(await page().getByLabel("Data").inputValue())).toMatchObject({ run: 7 });
    await journey.check("test-event");
    await page().getByLabel("Event type").fill("endpoint.test");
    await journey.press("Use an example of this type");
    expect(await page().getByLabel("Data").inputValue()).toContain("This is a test event.");
    await page().getByLabel("Data").fill('{"run": 1.0');
    await journey.press("Send event");
    expect(await page().getByLabel("Data").getAttribute("aria-invalid")).toBe("true");
    expect(await page().getByText("is not JSON").count()).toBe(1);
    await journey.check("test-event-refused");
    await page().getByLabel("Data").fill('{"run": 1152921504606846977}');
    await journey.press("Send event");
    expect(await journey.heading()).toBe("endpoint.test");
    expect(await page().getByRole("status").innerText()).toContain("was sent for delivery");
    await untilHeading("delivered");
    const got = receiver.requests.find(({ headers }) => headers["x-service-event-type"] === "endpoint.test");
    expect(got?.rawBody.toString()).toContain('"data":{"run": 1152921504606846977}');
    await journey.open(`/endpoints/${endpoint}`);
    expect(await region("Newest deliveries of this endpoint").getByRole("row").last().innerText()).toContain(
      "HTTP 200",
    );
    await journey.check("endpoint-with-deliveries");
    await journey.follow("Activity");
    expect(await page().getByRole("img", { name: "Delivered in the end by hour: 100 %" }).count()).toBe(1);
    await journey.check("endpoint-hours");
    await journey.open(`/endpoints/${endpoint}`);
  });

  test("a receiver is graded: the page waits, then shows the faults and their fixes", async () => {
    await journey.follow("Grade the receiver");
    expect(await page().getByText("No grades yet").count()).toBe(1);
    await journey.check("grades-empty");
    await journey.press("Grade the receiver");
    expect(await journey.heading()).toBe("Receiver grade");
    if ((await page().getByRole("progressbar").count()) === 1) {
      await journey.check("grade-running");
    }
    // The receiver answers 200 to everything.
    await untilHeading("completed");
    const findings = page()
      .getByRole("listitem")
      .filter({ has: page().getByRole("heading", { level: 3 }) });
    const stale = findings.filter({ hasText: "signed 15 minutes ago" });
    expect(await stale.innerText()).toMatch(/critical[^]*Respond with 401 to requests signed/);
    const checks = region("Verdict of every check").getByRole("row");
    expect(await checks.filter({ hasText: "No signature" }).innerText()).toMatch(/HTTP 200[^]*failed/);
    expect(await checks.filter({ hasText: "256 KiB of data" }).innerText()).toMatch(/HTTP 200[^]*passed/);
    grade = new URL(page().url()).pathname;
    await journey.check("grade");
    await journey.follow("All grades of this endpoint");
    expect(await region("Grades").getByRole("row").last().innerText()).toMatch(/completed[^]*0 of 100/);
    await journey.check("grades");
  });

  test("missed events are counted first, then sent as a job that can be paused and resumed", async () => {
    const { tenant, receiver } = journey;
    for (let run = 1; run <= MISSED; run += 1) {
      await publish(tenant, { type: "pipeline.failed", data: { run } });
    }
    const late = await journey.addEndpoint("/late", ["pipeline.failed"]);
    await journey.open(`/endpoints/${late}`);
    await journey.follow("Replay missing events");
    await journey.check("missing");
    await page().getByLabel("Events per second").fill("fast");
    await journey.press("Count events");
    expect(await page().getByLabel("Events per second").getAttribute("aria-invalid")).toBe("true");
    await page().getByLabel("Events per second").fill("4");
    await journey.press("Count events");
    expect(await heading().innerText()).toBe(`Missing: ${MISSED} events`);
    expect(rows(await tenant.get("/v1/webhooks/replays"))).toEqual([]);
    await journey.check("missing-counted");
    await journey.press(`Replay ${MISSED} events`);
    expect(await journey.heading()).toBe("Replay");
    await journey.press("Pause");
    await untilHeading("paused");
    await journey.check("replay-missing-paused");
    await journey.press("Resume");
    expect(await page().getByRole("status").innerText()).toContain("resumed");
    await untilHeading("completed");
    expect(await page().getByText(`${MISSED} of ${MISSED}`).count()).toBeGreaterThan(0);
    await journey.until(
      async () => receiver.requests.filter(({ path }) => path === "/late").length >= MISSED + 1,
      "the events at the receiver",
    );
    await journey.follow("All replays");
    expect(await region("Replays").getByRole("row").last().innerText()).toContain("missing events");
    await journey.open(`/endpoints/${late}/missing`);
    await journey.press("Count events");
    expect(await heading().innerText()).toBe("No missing events");
    await journey.check("missing-nothing");
  });

  test("each of these pages is at most 100 KB with all its files", async () => {
    const cold = await openBrowser({ javaScriptEnabled: javaScript });
    try {
      const paths = [
        grade,
        `/portal/endpoints/${endpoint}`,
        `/portal/endpoints/${endpoint}/grades`,
        `/portal/endpoints/${endpoint}/hours`,
        `/portal/endpoints/${endpoint}/test-event`,
        `/portal/endpoints/${endpoint}/missing`,
      ];
      await cold.context.addCookies(await page().context().cookies());
      for (const path of paths) {
        const fresh = await cold.context.newPage();
        // Without the cache, so that every file counts.
        await fresh.route("**/*", async (route) => await route.continue());
        const sizes = await sizesOf(fresh, `${journey.api.publicUrl}${path}`);
        const total = sizes.reduce((sum, size) => sum + size, 0);
        console.log(`portal: ${path.replaceAll(/_[0-9a-z]{24}/g, "_…")} is ${total} bytes`);
        expect({ path, fits: total <= PAGE_MAX, total }).toEqual({ path, fits: true, total });
        await fresh.close();
      }
    } finally {
      await cold.close();
    }
  });

  test("no page had script errors or policy violations", () => {
    expect(journey.complaints).toEqual([]);
  });
});
