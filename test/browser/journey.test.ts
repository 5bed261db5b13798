/** Tenants' tasks in the portal, in a real browser, by role and label, with and without JavaScript. */
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
  sizesOf,
} from "../support/browser.ts";
import { accessToken, provision, type Provisioned } from "../support/factories.ts";
import { allowMinutes } from "../support/limits.ts";
import { mintLink } from "../support/portal.ts";
import { type Receiver, startReceiver, verifyReceived } from "../support/receiver-server.ts";
import { asTenant } from "../support/tenant.ts";

allowMinutes(4);

const SCOPES = [
  "portal:sign_in",
  "webhooks:read",
  "webhooks:write",
  "webhooks:replay",
  "events:read",
  "credentials:read",
  "credentials:write",
  "credentials:revoke",
  "compliance:read",
];
const PAGE_MAX = 102_400;

describe.skipIf(NO_BROWSER).each([
  { name: "with JavaScript", javaScript: true },
  { name: "without JavaScript", javaScript: false },
])("the portal $name", ({ javaScript }) => {
  const api = useTestApi({ worker: true, environment: { SIGNET_TEMPORAL_UI_URL: "http://127.0.0.1:8233" } });
  let receiver: Receiver;
  let browser: Awaited<ReturnType<typeof openBrowser>>;
  let page: Page;
  let complaints: string[];
  let tenant: Provisioned;
  let token: string;

  /** The accessibility checks need scripts, so they run with JavaScript only. */
  async function check(name: string): Promise<void> {
    const wrong = javaScript ? await lookAt(page, name) : NOTHING_WRONG;
    expect({ name, wrong }).toEqual({ name, wrong: NOTHING_WRONG });
  }
  const button = async (name: string): Promise<void> =>
    await clickThrough(page.getByRole("button", { name }));
  const link = async (name: string): Promise<void> =>
    await clickThrough(page.getByRole("link", { name, exact: true }));
  const heading = async (): Promise<string> => await page.getByRole("heading", { level: 1 }).innerText();
  const state = async (): Promise<string> =>
    await page.getByRole("heading", { level: 2, name: "State" }).innerText();

  /** Waits for the state. With JavaScript the page updates by itself; without, this reloads it. */
  async function untilState(wanted: string): Promise<void> {
    if (javaScript) {
      await page.getByRole("heading", { level: 2, name: `State ${wanted}` }).waitFor({ timeout: 50_000 });
      return;
    }
    await expect
      .poll(
        async () => {
          await page.reload();
          return await state();
        },
        { timeout: 50_000 },
      )
      .toContain(wanted);
  }

  beforeAll(async () => {
    receiver = await startReceiver();
    tenant = await provision(api, { scopes: SCOPES });
    token = await accessToken(api, tenant, SCOPES.join(" "));
    browser = await openBrowser({ javaScriptEnabled: javaScript });
    page = browser.context.pages()[0] ?? (await browser.context.newPage());
    complaints = complaintsOf(page);
  });
  afterAll(async () => {
    await browser?.close();
    await receiver?.close();
  });

  test("signing in takes a link and its button", async () => {
    await page.goto(`${api.publicUrl}/portal`);
    expect(await heading()).toBe("Sign in");
    await page.goto(await mintLink(api, token));
    await check("sign-in");
    await button("Sign in to the portal");
    expect(await heading()).toBe("Home");
    await check("home-empty");
  });

  test("an endpoint is added, its secret shown once, and verified by the ping", async () => {
    await link("Add an endpoint");
    await check("endpoint-new");
    await page.getByLabel("Target URL").fill("http://10.0.0.1/hooks");
    await button("Add endpoint");
    expect(await page.getByRole("alert").innerText()).not.toBe("");
    expect(await page.getByLabel("Target URL").getAttribute("aria-invalid")).toBe("true");
    await check("endpoint-new-refused");
    await page.getByLabel("Target URL").fill(`${receiver.url}/hooks`);
    await page.getByLabel("Event types").fill("inference.completed\npipeline.failed");
    await page.getByLabel("Description").fill("Billing");
    await button("Add endpoint");
    expect(await heading()).toBe("Endpoint added");
    const secret = await page.getByText(/^whsec_/).innerText();
    await check("endpoint-added");
    await link("Go to the endpoint");
    await untilState("active");
    await page.reload();
    expect(await page.getByText(secret).count()).toBe(0);
    await button("Send test event");
    expect(await page.getByRole("status").innerText()).toContain("was sent for delivery");
    const requests = await receiver.waitFor(2, 30_000);
    const types = requests.map((request) => {
      verifyReceived(request, [secret]);
      return request.headers["x-service-event-type"];
    });
    expect(types).toEqual(["ping", "endpoint.test"]);
    // The test event's delivery links back to the endpoint.
    await link(`${receiver.url}/hooks`);
    await check("endpoint");
  });

  test("its secret is rotated and the new one activated", async () => {
    await button("Rotate secret");
    expect(await heading()).toBe("New signing secret");
    expect(await page.getByText(/^whsec_/).count()).toBe(1);
    await check("endpoint-rotated");
    await link("Back to the endpoint");
    await button("Use the new secret now");
    expect(await page.getByRole("status").innerText()).toContain("signs first");
  });

  test("it is edited, disabled and enabled again", async () => {
    await link("Edit");
    expect(await page.getByLabel("Event types").inputValue()).toBe("inference.completed\npipeline.failed");
    await page.getByLabel("Event types").fill("");
    await check("endpoint-edit");
    await button("Save");
    expect(await page.getByText("all events").count()).toBe(1);
    await button("Disable");
    expect(await state()).toContain("disabled");
    await check("endpoint-disabled");
    await button("Enable");
    await untilState("active");
    await page.goto(`${api.publicUrl}/portal/endpoints`);
    await check("endpoints");
    await clickThrough(page.getByRole("link", { name: receiver.url }));
  });

  test("it links to Temporal for operators, and shows the pending verification", async () => {
    const href = await page.getByRole("link", { name: "Open in Temporal" }).getAttribute("href");
    expect(href).toMatch(
      /^http:\/\/127\.0\.0\.1:8233\/namespaces\/[^/]+\/workflows\/verify%2Fep_[0-9a-z]{24}%2F\d+$/,
    );
    receiver.answer([{ kind: "answer", status: 500 }]);
    await link("Endpoints");
    await link("Add endpoint");
    await page.getByLabel("Target URL").fill(`${receiver.url}/other`);
    await button("Add endpoint");
    await link("Go to the endpoint");
    await expect
      .poll(
        async () => {
          await page.reload();
          return await page.getByText(/failed:\s/).count();
        },
        { timeout: 50_000 },
      )
      .toBe(1);
    await check("endpoint-pending");
    await link("Home");
    expect(await page.getByRole("link", { name: `${receiver.url}/other` }).count()).toBe(1);
    await check("home");
    await clickThrough(page.getByRole("link", { name: `${receiver.url}/other` }));
    // The button is there while the verification fails. The next attempt by schedule would make the endpoint active.
    await page.getByRole("button", { name: "Verify now" }).waitFor();
    receiver.answer([{ kind: "answer" }]);
    await button("Verify now");
    await untilState("active");
  });

  test("it is deleted after typed confirmation", async () => {
    await page.getByLabel("Type delete to confirm").fill("nothing");
    const deleting = page.getByRole("button", { name: "Delete endpoint" });
    // With JavaScript the button stays disabled; without, the service refuses.
    expect(await deleting.isDisabled()).toBe(javaScript);
    const said = javaScript
      ? "must be the word delete"
      : await deleting.click().then(async () => await page.getByRole("alert").innerText());
    expect(said).toContain("must be the word delete");
    await page.getByLabel("Type delete to confirm").fill("delete");
    await clickThrough(deleting);
    expect(await page.getByRole("status").innerText()).toContain("deleted");
    expect(await page.getByRole("link", { name: `${receiver.url}/other` }).count()).toBe(0);
  });

  test("event types show their schema and examples", async () => {
    await asTenant(api, tenant, token).post("/v1/webhooks/event-types", {
      name: "inference.completed",
      description: "An inference ran to its end.",
      schema: { type: "object", properties: { model: { type: "string" } }, required: ["model"] },
      examples: [{ model: "signet-1", tokens: 42 }],
    });
    await link("Event types");
    await check("event-types");
    await link("inference.completed");
    expect(await page.getByRole("region", { name: "Schema", exact: true }).innerText()).toContain("model");
    expect(await page.getByRole("region", { name: "Example 1" }).innerText()).toContain("signet-1");
    await check("event-type");
  });

  test("a credential is revoked after its name is typed", async () => {
    const made = await asTenant(api, tenant, token).post("/v1/credentials", {});
    const other = String(made.body["client_id"]);
    await link("Credentials");
    await check("credentials");
    await link("Create credential");
    await page.getByLabel("Name").fill("Billing");
    await check("credential-new");
    await button("Create credential");
    expect(await heading()).toBe("Credential created");
    expect(await page.getByText(/^sgn_/).count()).toBe(1);
    await check("credential-created");
    await link("Credentials");
    await link(other);
    await check("credential");
    await page.getByLabel(`Type ${other} to confirm`).fill(other);
    await button("Revoke credential");
    expect(await heading()).toBe("Credential revoked");
    await check("credential-revoked");
  });

  test("what leaked is found and revoked, and a secret never returns", async () => {
    const made = await asTenant(api, tenant, token).post("/v1/credentials", {});
    const secret = String(made.body["client_secret"]);
    await link("Credentials");
    await page.getByLabel("What leaked?").fill(secret.slice(0, -1));
    await page.getByLabel("Type revoke to confirm").fill("revoke");
    await button("Revoke now");
    expect(await page.getByRole("alert").innerText()).toContain("invalid");
    expect(await page.content()).not.toContain(secret.slice(0, -1));
    await check("leak-refused");
    await page.getByLabel("What leaked?").fill(secret);
    await page.getByLabel("Type revoke to confirm").fill("revoke");
    await button("Revoke now");
    expect(await heading()).toBe("Revoked");
    expect(await page.getByRole("status").innerText()).toContain(String(made.body["client_id"]));
    expect(await page.content()).not.toContain(secret);
    await check("leak-revoked");
  });

  test("the keyboard skips to the content and reaches everything", async () => {
    await page.goto(`${api.publicUrl}/portal/endpoints`);
    await page.keyboard.press("Tab");
    const skip = page.getByRole("link", { name: "Skip to content" });
    expect(await skip.evaluate((element) => element.matches(":focus"))).toBe(true);
    await page.keyboard.press("Enter");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Add endpoint" }).waitFor();
  });

  test("a page is at most 100 KB with all its files", async () => {
    const cold = await openBrowser({ javaScriptEnabled: javaScript });
    try {
      await cold.context.addCookies(await browser.context.cookies());
      const fresh = await cold.context.newPage();
      const sizes = await sizesOf(fresh, `${api.publicUrl}/portal/endpoints`);
      const total = sizes.reduce((sum, size) => sum + size, 0);
      console.log(`portal: the endpoints page is ${total} bytes in ${sizes.length} files`);
      expect(total).toBeLessThanOrEqual(PAGE_MAX);
    } finally {
      await cold.close();
    }
  });

  test("signing out ends the session", async () => {
    await page.goto(`${api.publicUrl}/portal/sessions`);
    await check("sessions");
    await button("Sign out");
    expect(await heading()).toBe("Sign in");
    await page.goto(`${api.publicUrl}/portal/endpoints`);
    expect(await heading()).toBe("Sign in");
  });

  test("no page had script errors or policy violations", () => {
    expect(complaints).toEqual([]);
  });
});
