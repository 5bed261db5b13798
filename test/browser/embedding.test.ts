/** The portal in a frame of another site, in a tenant's brand, in a real browser. */
import { createServer, type Server } from "node:http";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { useTestApi } from "../support/api.ts";
import { clickThrough, lookAt, NO_BROWSER, NOTHING_WRONG, openBrowser } from "../support/browser.ts";
import { freePort } from "../support/free-port.ts";
import { mintLink } from "../support/portal.ts";
import { createTenant, type Tenant } from "../support/tenant.ts";

const [listed, unlisted] = [await freePort(), await freePort()];
const SCOPES = ["portal:sign_in", "webhooks:read", "webhooks:write", "events:read"];

describe.skipIf(NO_BROWSER)("the portal", () => {
  // `localhost` is another site than 127.0.0.1, where the portal is.
  const api = useTestApi({ environment: { SIGNET_PORTAL_FRAME_ORIGINS: `http://localhost:${listed}` } });
  const servers: Server[] = [];
  let browser: Awaited<ReturnType<typeof openBrowser>>;
  let page: Page;
  let tenant: Tenant;
  let framed = "";

  beforeAll(async () => {
    for (const port of [listed, unlisted]) {
      const server = createServer((_request, response) => {
        const frame = `<iframe src="${framed}" width="1000" height="700" title="Portal"></iframe>`;
        response.setHeader("content-type", "text/html").end(`<!doctype html><title>App</title>${frame}`);
      });
      await new Promise<void>((resolve) => {
        server.listen(port, "localhost", resolve);
      });
      servers.push(server);
    }
    tenant = await createTenant(api, SCOPES);
    await api.admin("PATCH", `/tenants/${tenant.tenantId}/portal`, {
      name: "Globex",
      accent: "#7a1fa2",
      support: "help@globex.example",
      return_url: "https://globex.example/app",
    });
    browser = await openBrowser();
    page = await browser.context.newPage();
  });
  afterAll(async () => {
    await browser?.close();
    for (const server of servers) {
      server.close();
    }
  });

  test("signs in and works in a frame of a listed origin of another site", async () => {
    framed = await mintLink(api, tenant.token);
    await page.goto(`http://localhost:${listed}/`);
    const frame = page.frameLocator("iframe");
    await frame.getByRole("button", { name: "Sign in to the portal" }).click();
    await frame.getByRole("heading", { level: 1, name: "Home" }).waitFor();
    await frame.getByRole("link", { name: "Endpoints", exact: true }).click();
    await frame.getByRole("link", { name: "Add endpoint" }).click();
    await frame.getByLabel("Target URL").fill("https://example.com/hooks");
    await frame.getByRole("button", { name: "Add endpoint" }).click();
    await frame.getByRole("heading", { level: 1, name: "Endpoint added" }).waitFor();
    const cookies = (await browser.context.cookies()).map(({ name, sameSite, secure }) => ({
      name,
      sameSite,
      secure,
    }));
    expect(cookies).toEqual([{ name: "signet_portal_frame", sameSite: "None", secure: true }]);
  });

  test("does not appear in a frame of another origin", async () => {
    framed = `${api.publicUrl}/portal`;
    await page.goto(`http://localhost:${unlisted}/`);
    const shown = page.frames().find((frame) => frame.parentFrame() !== null);
    expect(await shown?.locator("main").count()).toBe(0);
  });

  test("in a tenant's colours is readable in light and dark, and on a phone", async () => {
    await page.goto(await mintLink(api, tenant.token));
    expect(await page.title()).toContain("Globex");
    expect(await lookAt(page, "brand-sign-in")).toEqual(NOTHING_WRONG);
    await clickThrough(page.getByRole("button", { name: "Sign in to the portal" }));
    await page.getByRole("heading", { level: 1, name: "Home" }).waitFor();
    expect(await lookAt(page, "brand-home")).toEqual(NOTHING_WRONG);
    await page.goto(`${api.publicUrl}/portal/endpoints/new`);
    expect(await lookAt(page, "brand-form")).toEqual(NOTHING_WRONG);
    const used = await mintLink(api, tenant.token);
    await page.goto(used);
    await clickThrough(page.getByRole("button", { name: "Sign in to the portal" }));
    await page.goto(used);
    expect(await page.getByRole("heading", { level: 1 }).innerText()).toContain("already used");
    expect(await lookAt(page, "link-ended")).toEqual(NOTHING_WRONG);
  });
});
