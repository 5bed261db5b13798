/** A tenant's text never reorders the text of a page around it, in a real browser. */
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { useTestApi } from "../support/api.ts";
import { clickThrough, NO_BROWSER, openBrowser } from "../support/browser.ts";
import { allowMinutes } from "../support/limits.ts";
import { mintLink } from "../support/portal.ts";
import { createEndpoint, createTenant, publish, sql, type Tenant } from "../support/tenant.ts";

allowMinutes(4);

const SCOPES = [
  "compliance:read",
  "credentials:read",
  "credentials:revoke",
  "credentials:write",
  "events:publish",
  "events:read",
  "portal:sign_in",
  "webhooks:read",
  "webhooks:write",
];
/** A right-to-left override, an isolate that is not ended, and text that is written from right to left. */
const HOSTILE = "Acme \u202e\u2067שלום 12";

/** Finds each text outside of an isolate whose characters do not follow each other from left to right. */
const FIND_REORDERED = `(() => {
  const wrong = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const text = node.textContent;
    if (node.parentElement.closest("bdi, script, option") !== null || text.trim() === "") {
      continue;
    }
    const range = document.createRange();
    let before;
    for (let index = 0; index < text.length; index += 1) {
      range.setStart(node, index);
      range.setEnd(node, index + 1);
      const [rect] = range.getClientRects();
      if (rect === undefined || rect.width === 0) {
        continue;
      }
      if (before !== undefined && Math.abs(rect.top - before.top) < 2 && rect.left < before.left) {
        wrong.push(location.pathname + ": " + text.trim());
        break;
      }
      before = rect;
    }
  }
  return wrong;
})()`;

/** Shows a name without an isolate. */
const LEAVE_OPEN = `(() => {
  const [line, name] = [document.createElement("p"), document.createElement("span")];
  name.textContent = ${JSON.stringify(HOSTILE)};
  line.append("Tenant ", name, " is on hold since 2026.");
  document.querySelector("main").append(line);
})()`;

async function reorderedOn(page: Page): Promise<string[]> {
  return await page.evaluate<string[]>(FIND_REORDERED);
}

describe.skipIf(NO_BROWSER)("text of a tenant that reorders what follows", () => {
  const api = useTestApi();

  /** Gives everything a hostile text that a tenant or its operator may name. @returns the paths of pages with it */
  async function nameEverything(tenant: Tenant): Promise<string[]> {
    await sql(api, "UPDATE tenants SET name = $2 WHERE id = $1", [tenant.tenantId, HOSTILE]);
    const { id } = await createEndpoint(api, tenant, { metadata: { [HOSTILE]: HOSTILE } });
    const endpoint = `/v1/webhooks/endpoints/${id}`;
    expect(await tenant.send("PATCH", endpoint, { body: { description: HOSTILE } })).toMatchObject({
      status: 200,
    });
    const event = await publish(tenant, { id: HOSTILE, data: { [HOSTILE]: HOSTILE } });
    const catalogued = { name: "order.paid", description: HOSTILE };
    expect(await tenant.post("/v1/webhooks/event-types", catalogued)).toMatchObject({ status: 201 });
    const made = await tenant.post("/v1/credentials", { name: HOSTILE });
    expect(made).toMatchObject({ status: 201 });
    const credential = String(made.body["id"]);
    const revoked = await tenant.post(`/v1/credentials/${credential}/revoke`, { reason: HOSTILE });
    expect(revoked).toMatchObject({ status: 200 });
    const list = await tenant.get(`/v1/webhooks/deliveries?event_id=${event}`);
    const [delivery] = list.body["data"] as readonly { readonly id: string }[];
    return [
      "",
      "/endpoints",
      `/endpoints/${id}`,
      "/events",
      `/events/${event}`,
      "/deliveries",
      `/deliveries/${delivery?.id}`,
      "/event-types",
      "/event-types/order.paid",
      "/credentials",
      `/credentials/${credential}`,
      "/compliance",
    ];
  }

  test("leaves every page of the portal and the console in order", async () => {
    const tenant = await createTenant(api, SCOPES);
    const paths = await nameEverything(tenant);
    const browser = await openBrowser();
    try {
      const page = await browser.context.newPage();
      await page.goto(await mintLink(api, tenant.token));
      await clickThrough(page.getByRole("button", { name: "Sign in to the portal" }));
      await page.getByRole("heading", { level: 1, name: "Home" }).waitFor();
      const shown = new Set<string>();
      const reordered: string[] = [];
      const look = async (url: string): Promise<void> => {
        expect((await page.goto(url))?.status()).toBe(200);
        if ((await page.locator("main bdi").count()) > 0) {
          shown.add(new URL(url).pathname);
        }
        reordered.push(...(await reorderedOn(page)));
      };
      for (const path of paths) {
        await look(`${api.publicUrl}/portal${path}`);
      }
      await page.goto(`${api.adminUrl}/portal/operator/sign-in`);
      await page.getByLabel("Operator token").fill(api.operatorToken);
      await clickThrough(page.getByRole("button", { name: "Sign in", exact: true }));
      for (const path of ["tenants", `tenants/${tenant.tenantId}`, `why/${tenant.tenantId}`]) {
        await look(`${api.adminUrl}/portal/operator/${path}`);
      }
      await clickThrough(page.getByRole("button", { name: /^View / }));
      reordered.push(...(await reorderedOn(page)));
      expect(reordered).toEqual([]);
      expect(shown.size).toBeGreaterThan(8);

      // The check notices what it should: without isolates, text is reordered.
      await page.goto(`${api.adminUrl}/portal/operator/tenants/${tenant.tenantId}`);
      await page.evaluate(LEAVE_OPEN);
      expect(await reorderedOn(page)).toContainEqual(expect.stringContaining("is on hold since 2026."));
    } finally {
      await browser.close();
    }
  });
});
