/** Deliveries and charts in the portal, in a real browser, by role and label, with and without JavaScript. */
import type { Locator } from "playwright-core";
import { describe, expect, test } from "vitest";
import { NO_BROWSER } from "../support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import { seedDay } from "../support/seeded-day.ts";
import { READERS, useJourney } from "../support/portal-journey.ts";
import { publish, rows, sql } from "../support/tenant.ts";

allowMinutes(4);

const SCOPES = ["portal:sign_in", "webhooks:read", "webhooks:write", "events:publish", "events:read"];
const MANY = 60;

describe.skipIf(NO_BROWSER).each(READERS)("deliveries in the portal $name", ({ javaScript }) => {
  const journey = useJourney({
    javaScript,
    scopes: SCOPES,
    environment: { SIGNET_TEMPORAL_UI_URL: "http://127.0.0.1:8233" },
  });
  const query = async (text: string, values: unknown[]): Promise<unknown> =>
    await sql(journey.api, text, values);
  const listed = (): Locator => journey.page.getByRole("region", { name: "Deliveries", exact: true });
  /** The row of an event type. */
  const line = (type: string): Locator => listed().getByRole("row").filter({ hasText: type });
  const state = (): Locator => journey.page.getByRole("heading", { level: 2, name: /^State/ });
  const button = (name: string): Locator => journey.page.getByRole("button", { name, exact: true });

  async function untilLine(type: string, text: string): Promise<void> {
    const shows = async (): Promise<boolean> => (await line(type).filter({ hasText: text }).count()) === 1;
    await journey.until(shows, `${type} as ${text} in the list`);
  }
  async function untilState(text: string): Promise<void> {
    await journey.until(async () => (await state().innerText()).includes(text), `the state ${text}`);
  }
  async function deliveryOf(event: string): Promise<string> {
    return String(rows(await journey.tenant.get(`/v1/webhooks/deliveries?event_id=${event}`))[0]?.["id"]);
  }

  test("an empty list explains where deliveries come from", async () => {
    await journey.follow("Deliveries");
    expect(await journey.heading()).toBe("Deliveries");
    expect(await journey.page.getByText("No deliveries yet").count()).toBe(1);
    await journey.check("deliveries-empty");
  });

  test("the list updates by itself", async () => {
    const { receiver, page } = journey;
    await journey.addEndpoint("/billing", ["inference.completed", "pipeline.failed"]);
    await journey.open("/deliveries");
    const live = page.getByText("Live", { exact: true });
    await journey.until(async () => (await live.isVisible()) === javaScript, "the live indicator");
    await publish(journey.tenant, { data: { model: "signet-1", tokens: 42 } });
    // With scripts, no reload is needed.
    await untilLine("inference.completed", "delivered");
    expect(await line("inference.completed").innerText()).toContain(`${receiver.url}/billing`);
    expect(await line("inference.completed").innerText()).toMatch(
      javaScript ? /:\d\d [AP]M[^]*(?:\d+ (?:s|min) ago|now)/ : /:\d\d:\d\d UTC/,
    );
  });

  test("a delivery shows each request as the receiver got it, its response, and the time of the next one", async () => {
    const { receiver, page } = journey;
    const before = receiver.requests.length;
    receiver.answer([
      { kind: "answer", status: 503, body: `{"error":"<b>database</b> is not there"}` },
      { kind: "answer", status: 500, body: "still not" },
    ]);
    const event = await publish(journey.tenant, {
      type: "pipeline.failed",
      data: { step: "train", attempt: 2 },
    });
    await untilLine("pipeline.failed", "retrying");
    await journey.check("deliveries");
    await journey.follow("pipeline.failed");
    expect(await journey.heading()).toBe("pipeline.failed");
    expect(await state().innerText()).toContain("retrying");
    const first = page.getByRole("listitem").filter({ hasText: "Attempt 1" });
    expect(await first.innerText()).toContain("HTTP 503");
    await first.getByText("Request headers").click();
    const [request] = receiver.requests.slice(before);
    const headers = await page.getByRole("region", { name: "Request headers of attempt 1" }).innerText();
    const shown = new Map(
      headers
        .split("\n")
        .map((text) => [text.split(": ", 1)[0]?.toLowerCase() ?? "", text.slice(text.indexOf(": ") + 2)]),
    );
    for (const name of [
      "webhook-id",
      "x-service-event-id",
      "x-service-event-type",
      "x-service-delivery-id",
      "x-service-attempt",
      "content-type",
    ]) {
      expect({ [name]: shown.get(name) }).toEqual({ [name]: request?.headers[name] });
    }
    expect(shown.get("webhook-signature")).toBe("(not stored)");
    expect(shown.get("webhook-id")).toBe(event);
    // The newest response is open.
    const closed = first.locator("details:not([open])", { hasText: "Response body" });
    if ((await closed.count()) === 1) {
      await closed.getByText("Response body").click();
    }
    const body = await page.getByRole("region", { name: "Response body of attempt 1" }).innerText();
    expect(body).toContain("<b>database</b> is not there");
    await journey.check("delivery-retrying");
    const next = page.getByText("Next attempt").locator("xpath=..");
    // On a slow machine the countdown may end during the check; the next attempt has one too.
    const dueText = javaScript ? /in \d+ (s|min|h)/ : /\d\d:\d\d UTC/;
    await journey.until(async () => dueText.test(await next.innerText()), "the time of the next attempt");
    expect(await page.getByRole("link", { name: "Open in Temporal" }).getAttribute("href")).toContain(
      "/workflows/",
    );
  });

  test("an attempt is made now, and a delivered delivery offers no further actions", async () => {
    const { receiver, page } = journey;
    // An attempt by schedule, just before the click, must not deliver: then there would be no button.
    const pressed = Promise.withResolvers<undefined>();
    receiver.answer([{ kind: "answer", status: 200, body: "thanks", after: pressed.promise }]);
    await journey.press("Attempt now");
    pressed.resolve(undefined);
    expect(await page.getByRole("status").innerText()).toContain("attempt starts now");
    await untilState("delivered");
    expect(await button("Attempt now").count()).toBe(0);
    expect(await button("Cancel").count()).toBe(0);
    const newest = page.getByRole("listitem").filter({ hasText: "Attempt" }).first();
    expect(await newest.innerText()).toContain("HTTP 200");
    await journey.check("delivery-delivered");
  });

  test("a delivery can be cancelled once", async () => {
    const { receiver, page } = journey;
    receiver.answer([{ kind: "answer", status: 500 }]);
    const id = await deliveryOf(await publish(journey.tenant, { type: "pipeline.failed" }));
    await journey.open(`/deliveries/${id}`);
    await untilState("retrying");
    await journey.press("Cancel");
    expect(await page.getByRole("status").innerText()).toContain("cancelled");
    await untilState("cancelled");
    expect(await button("Cancel").count()).toBe(0);
    await journey.check("delivery-cancelled");
  });

  test("filters narrow the list, are shown in it, and an empty result says so", async () => {
    const { page } = journey;
    await journey.follow("Deliveries");
    await page.getByLabel("State").selectOption({ label: "cancelled" });
    await journey.press("Filter");
    expect(await line("pipeline.failed").count()).toBe(1);
    expect(await line("inference.completed").count()).toBe(0);
    expect(await page.getByLabel("State").inputValue()).toBe("CANCELLED");
    await page.getByLabel("State").selectOption({ label: "All" });
    await page.getByLabel("Event type").fill("inference.completed");
    await page.getByLabel("Endpoint").selectOption({ label: `${journey.receiver.url}/billing` });
    await journey.press("Filter");
    expect(await line("inference.completed").count()).toBe(1);
    expect(await line("pipeline.failed").count()).toBe(0);
    await page.getByLabel("Event type").fill("nothing.such");
    await journey.press("Filter");
    expect(await page.getByText("No deliveries match these filters").count()).toBe(1);
    await journey.check("deliveries-none-found");
    await journey.open("/deliveries?state=LOST");
    expect(await page.getByRole("alert").innerText()).toMatch(/^State must be /);
    await journey.check("deliveries-refused");
    await journey.follow("Show all");
    expect(await line("pipeline.failed").count()).toBe(2);
  });

  test("events are listed, also those that matched nobody, and found by their id", async () => {
    const { page, tenant } = journey;
    const event = await publish(tenant, { type: "matched.nobody", data: { one: 1.5, list: [1, 2] } });
    await journey.follow("Events");
    const events = page.getByRole("region", { name: "Events", exact: true }).getByRole("row");
    expect(await events.filter({ hasText: "matched.nobody" }).innerText()).toContain("matched no endpoint");
    await journey.check("events");
    await page.getByLabel("Find by id").fill(event);
    await page.getByLabel("Find by id").press("Enter");
    await page.getByRole("heading", { level: 1, name: "matched.nobody" }).waitFor();
    expect(await page.getByRole("region", { name: "Data", exact: true }).innerText()).toContain('"one": 1.5');
    await journey.check("event");
    await page.getByLabel("Find by id").fill("nothing");
    await page.getByLabel("Find by id").press("Enter");
    await page.getByRole("heading", { level: 1, name: "Nothing found" }).waitFor();
    await journey.check("search-nothing");
    await journey.follow("Deliveries");
  });

  test("links lead to older deliveries and back to the newest", async () => {
    const { tenant, page, receiver } = journey;
    receiver.answer([{ kind: "answer" }]);
    const events = Array.from({ length: MANY }, (_, number) => ({
      type: "inference.completed",
      data: { number },
    }));
    expect(await tenant.post("/v1/events", { events })).toMatchObject({ status: 202 });
    await eventually(
      async () =>
        rows(await tenant.get("/v1/webhooks/deliveries?limit=100&state=DELIVERED")).length === MANY + 2,
      "the deliveries of the batch",
    );
    await journey.open("/deliveries");
    expect(await line("inference.completed").count()).toBe(25);
    await journey.check("deliveries-many");
    await journey.follow("Older");
    expect(await line("inference.completed").count()).toBe(25);
    await journey.follow("Newest");
    expect(await line("inference.completed").count()).toBe(25);
    expect(page.url()).toBe(`${journey.api.publicUrl}/portal/deliveries`);
  });

  test("the last 24 hours are shown in charts and in numbers", async () => {
    const { page, tenant } = journey;
    const endpointId = await journey.addEndpoint("/charts", ["chart.drawn"]);
    await seedDay({ query }, { tenantId: tenant.tenantId, endpointId });
    // The numbers may be half a minute old.
    await eventually(async () => {
      await journey.open("");
      const volume = await page.getByRole("img", { name: /^Volume by hour/ }).getAttribute("aria-label");
      return Number(/: ([\d,]+) deliveries/.exec(volume ?? "")?.[1]?.replace(",", "")) > 500;
    }, "charts of the day");
    expect(await page.getByRole("img", { name: /by hour: / }).count()).toBe(4);
    await journey.check("home");
    await page.getByText("The numbers").click();
    expect(
      await page.getByRole("region", { name: "Deliveries by hour" }).getByRole("row").count(),
    ).toBeGreaterThan(20);
    await journey.check("home-numbers");
  });

  test("no page had script errors or policy violations", () => {
    expect(journey.complaints).toEqual([]);
  });
});
