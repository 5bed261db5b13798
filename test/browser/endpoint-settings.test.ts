/** The form of an endpoint in a real browser: filter, headers, metadata, rate, and authentication to the receiver. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { useTestApi } from "../support/api.ts";
import {
  clickThrough,
  complaintsOf,
  lookAt,
  NO_BROWSER,
  NOTHING_WRONG,
  openBrowser,
} from "../support/browser.ts";
import { allowMinutes } from "../support/limits.ts";
import { mintLink } from "../support/portal.ts";
import { createTenant, rows, type Tenant } from "../support/tenant.ts";

allowMinutes(4);

const SCOPES = ["portal:sign_in", "webhooks:read", "webhooks:write"];

describe.skipIf(NO_BROWSER).each([
  { name: "with JavaScript", javaScript: true },
  { name: "without JavaScript", javaScript: false },
])("the form of an endpoint $name", ({ javaScript }) => {
  const api = useTestApi();
  let browser: Awaited<ReturnType<typeof openBrowser>>;
  let page: Page;
  let tenant: Tenant;
  let complaints: string[];

  /** The accessibility checks need scripts, so they run with JavaScript only. */
  async function check(name: string): Promise<void> {
    const wrong = javaScript ? await lookAt(page, name) : NOTHING_WRONG;
    expect({ name, wrong }).toEqual({ name, wrong: NOTHING_WRONG });
  }
  const button = async (name: string): Promise<void> =>
    await clickThrough(page.getByRole("button", { name }));
  const settled = async () => rows(await tenant.get("/v1/webhooks/endpoints"))[0];

  beforeAll(async () => {
    tenant = await createTenant(api, SCOPES);
    browser = await openBrowser({ javaScriptEnabled: javaScript });
    page = browser.context.pages()[0] ?? (await browser.context.newPage());
    complaints = complaintsOf(page);
    await page.goto(await mintLink(api, tenant.token));
    await button("Sign in to the portal");
  });
  afterAll(async () => {
    await browser?.close();
  });

  test("collapses advanced settings, and shows the fields of the selected option", async () => {
    await page.goto(`${api.publicUrl}/portal/endpoints/new`);
    await page.getByLabel("Target URL").fill("https://example.com/hooks");
    expect(await page.getByLabel("Custom headers").isVisible()).toBe(false);
    await page.getByText("Filter, headers, authentication and more").click();
    expect(await page.getByLabel("Header name").isVisible()).toBe(false);
    await page.getByLabel("A secret header").check();
    expect(await page.getByLabel("Header name").isVisible()).toBe(true);
    expect(await page.getByLabel("Token URL").isVisible()).toBe(false);
    await check("endpoint-settings");
  });

  test("shows errors beside the fields, and keeps all input except for secrets", async () => {
    await page.getByLabel("Filter").fill('{"data.amount": {"$gte": 100}');
    await page.getByLabel("Header name").fill("X-Api-Key");
    await page.getByLabel("Header value").fill("s3cret-value");
    await button("Add endpoint");
    expect(await page.getByLabel("Filter").getAttribute("aria-invalid")).toBe("true");
    expect(await page.getByText("is not JSON").isVisible()).toBe(true);
    expect(await page.getByLabel("Header name").inputValue()).toBe("X-Api-Key");
    expect(await page.getByLabel("Header value").inputValue()).toBe("");
    await check("endpoint-settings-refused");
  });

  test("event types are selected in the catalogue's tree, which can be searched with JavaScript", async () => {
    for (const name of ["invoice.paid", "invoice.voided", "pipeline.failed"]) {
      await tenant.post("/v1/webhooks/event-types", { name });
    }
    await page.goto(`${api.publicUrl}/portal/endpoints/new`);
    await page.getByLabel("Target URL").fill("https://example.com/tree");
    const search = page.getByLabel("Find an event type");
    expect(await search.isVisible()).toBe(javaScript);
    if (javaScript) {
      await search.fill("paid");
    }
    expect(await page.getByRole("checkbox", { name: "pipeline.failed" }).isVisible()).toBe(!javaScript);
    await page.getByRole("checkbox", { name: "invoice.paid" }).check();
    await page.getByLabel("Other event types").fill("Order Shipped");
    await check("endpoint-types");
    await button("Add endpoint");
    expect(await page.getByText("Did you mean order.shipped?").isVisible()).toBe(true);
    expect(await page.getByRole("checkbox", { name: "invoice.paid" }).isChecked()).toBe(true);
    await check("endpoint-types-refused");
    await page.getByLabel("Other event types").fill("order.shipped");
    await button("Add endpoint");
    await page.getByRole("radio", { name: "Python" }).check();
    expect(await page.getByRole("region", { name: "Code for Python" }).isVisible()).toBe(true);
    expect(await page.getByRole("region", { name: "Code for Node" }).isVisible()).toBe(false);
    await check("endpoint-code");
    expect((await settled())?.["events"]).toEqual(["invoice.paid", "order.shipped"]);
    await page.goto(`${api.publicUrl}/portal/endpoints/new`);
    await page.getByLabel("Target URL").fill("https://example.com/hooks");
    await page.getByText("Filter, headers, authentication and more").click();
    await page.getByLabel("A secret header").check();
    await page.getByLabel("Header name").fill("X-Api-Key");
  });

  test("saves settings, and later changes them without the secret being typed again", async () => {
    await page.getByLabel("Filter").fill('{"data.amount": {"$gte": 100}}');
    await page.getByLabel("Custom headers").fill("X-Environment: staging\nX-Team: ml");
    await page.getByLabel("Metadata").fill('{"region": "eu"}');
    await page.getByLabel("Deliveries per second").fill("20");
    await page.getByLabel("Verification").selectOption("yes");
    await page.getByLabel("Header value").fill("s3cret-value");
    await button("Add endpoint");
    await clickThrough(page.getByRole("link", { name: "Go to the endpoint" }));
    expect(await settled()).toMatchObject({
      filter: { "data.amount": { $gte: 100 } },
      headers: { "X-Environment": "staging", "X-Team": "ml" },
      metadata: { region: "eu" },
      rate_limit: 20,
      require_echo: true,
      authentication: { type: "header", name: "X-Api-Key" },
    });
    await check("endpoint-with-settings");
    await clickThrough(page.getByRole("link", { name: "Edit", exact: true }));
    expect(await page.getByLabel("Unchanged: header X-Api-Key").isChecked()).toBe(true);
    await check("endpoint-settings-edit");
    await page.getByLabel("Custom headers").fill("");
    await button("Save");
    expect(await page.getByRole("status").innerText()).toContain("changed");
    expect(await settled()).toMatchObject({ headers: {}, authentication: { name: "X-Api-Key" } });
    expect(await page.content()).not.toContain("s3cret-value");
  });

  test("saves OAuth client credentials, and removes the authentication", async () => {
    await clickThrough(page.getByRole("link", { name: "Edit", exact: true }));
    await page.getByLabel("OAuth 2.0 client credentials").check();
    await page.getByLabel("Token URL").fill("https://tokens.example.com/token");
    await page.getByLabel("Client id").fill("billing");
    await page.getByLabel("Client secret").fill("s3cret-value");
    await button("Save");
    expect(await settled()).toMatchObject({
      authentication: { type: "oauth2_client_credentials", client_id: "billing" },
    });
    await clickThrough(page.getByRole("link", { name: "Edit", exact: true }));
    await page.getByLabel("None", { exact: true }).check();
    await button("Save");
    expect(await settled()).toMatchObject({ authentication: null });
  });

  test("shows and changes how deliveries are signed", async () => {
    await clickThrough(page.getByRole("link", { name: "Change signatures and rotation" }));
    await page.getByLabel("Automatic rotation, in days").fill("30");
    await button("Save");
    expect(await page.getByText("requires a recipient").isVisible()).toBe(true);
    await page.getByLabel("Signatures").selectOption("ed25519");
    await check("endpoint-signing");
    await button("Save");
    expect(await page.getByText(/^whpk_/).isVisible()).toBe(true);
    await page.getByLabel("The current secret continues to sign").selectOption("0");
    await button("Rotate secret");
    expect(await page.getByText("all earlier secrets have stopped signing").isVisible()).toBe(true);
    await clickThrough(page.getByRole("link", { name: "Back to the endpoint" }));
    await check("endpoint-signing-shown");
  });

  test("caused no errors on any page", () => {
    expect(complaints).toEqual([]);
  });
});
