/** The operators' console in a real browser: sign-in, overview, search, a tenant's pages read-only, a hold by keyboard, and leaving. */
import { describe, expect, test } from "vitest";
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
import { createEndpoint, createTenant, publish, sql } from "../support/tenant.ts";

allowMinutes(4);

const WORKFLOWS = /^http:\/\/127\.0\.0\.1:8233\/namespaces\/[^/]+\/workflows\?query=\S+$/;

describe.skipIf(NO_BROWSER)("the operators' console", () => {
  const api = useTestApi({ environment: { SIGNET_TEMPORAL_UI_URL: "http://127.0.0.1:8233" } });

  test("leads from signing in to a tenant's pages and back", async () => {
    const tenant = await createTenant(api);
    await sql(api, "UPDATE tenants SET name = 'Acme' WHERE id = $1", [tenant.tenantId]);
    const { id } = await createEndpoint(api, tenant, { url: "http://127.0.0.1:19999/hooks" });
    await publish(tenant);
    await sql(
      api,
      `INSERT INTO endpoint_activity (endpoint_id, tenant_id, health, health_since, results, failing_since,
          last_failure_at, last_status, last_error, retrying, dead)
        VALUES ($1, $2, 'failing', now() - interval '2 h', '00000', now() - interval '2 h', now(), 503, 'status', 4, 2)`,
      [id, tenant.tenantId],
    );
    await sql(api, "UPDATE deliveries SET created_at = now() - interval '10 min'");
    const browser = await openBrowser();
    try {
      const page = browser.context.pages()[0] ?? (await browser.context.newPage());
      const complaints = complaintsOf(page);
      const heading = async (): Promise<string> => await page.getByRole("heading", { level: 1 }).innerText();
      await page.goto(`${api.adminUrl}/portal/operator/sign-in`);
      expect({ wrong: await lookAt(page, "console-sign-in") }).toEqual({ wrong: NOTHING_WRONG });
      await page.getByLabel("Operator token").fill(api.operatorToken);
      await clickThrough(page.getByRole("button", { name: "Sign in", exact: true }));
      expect(await heading()).toBe("Overview");
      expect(await page.getByText("No worker is alive").count()).toBe(1);
      for (const name of ["Retrying", "Dead letters", "Expiring today", "Verifications", "Replay jobs"]) {
        expect(await page.getByRole("link", { name, exact: true }).getAttribute("href")).toMatch(WORKFLOWS);
      }
      const query = async (name: string): Promise<string | null> => {
        const href = await page.getByRole("link", { name }).getAttribute("href");
        return new URL(href ?? "").searchParams.get("query");
      };
      expect({ wrong: await lookAt(page, "console-overview") }).toEqual({ wrong: NOTHING_WRONG });

      await clickThrough(page.getByRole("link", { name: "Tenants", exact: true }));
      await page.getByLabel("Id, name, client id or URL").fill("19999/hooks");
      await clickThrough(page.getByRole("button", { name: "Find" }));
      expect({ wrong: await lookAt(page, "console-find") }).toEqual({ wrong: NOTHING_WRONG });
      await clickThrough(page.getByRole("link", { name: id }));
      expect(await page.getByText("No worker is alive, so nothing is delivered.").count()).toBe(1);
      expect(await query("List in Temporal")).toBe(`SignetEndpoint="${id}"`);
      expect({ wrong: await lookAt(page, "console-why") }).toEqual({ wrong: NOTHING_WRONG });

      await clickThrough(page.getByRole("button", { name: "View Acme" }));
      expect(await heading()).toBe("Home");
      expect(await page.getByText("read-only, without content").count()).toBe(1);
      await clickThrough(page.getByRole("link", { name: "Endpoints", exact: true }));
      expect(await page.getByRole("link", { name: "Add endpoint" }).count()).toBe(0);
      expect({ wrong: await lookAt(page, "console-view") }).toEqual({ wrong: NOTHING_WRONG });
      await clickThrough(page.getByRole("link", { name: "Acme" }));
      expect(await query("List in Temporal")).toBe(`SignetTenant="${tenant.tenantId}"`);
      await clickThrough(page.getByRole("link", { name: "Hold or revoke" }));
      expect(await heading()).toBe("Tenant Acme");
      expect({ wrong: await lookAt(page, "console-tenant") }).toEqual({ wrong: NOTHING_WRONG });
      const hold = page.getByRole("region", { name: "Hold" });
      await hold.getByLabel("Reason").focus();
      await page.keyboard.type("Receiver under attack");
      await page.keyboard.press("Tab");
      await page.keyboard.type("Acm");
      expect(await hold.getByRole("button").isDisabled()).toBe(true);
      await page.keyboard.type("e");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "Release" }).waitFor();
      expect({ wrong: await lookAt(page, "console-held") }).toEqual({ wrong: NOTHING_WRONG });
      await clickThrough(page.getByRole("button", { name: "Leave the tenant" }));
      expect(await heading()).toBe("Tenants");
      await clickThrough(page.getByRole("button", { name: "Sign out" }));
      expect(await heading()).toBe("Operators: sign in");
      expect(complaints).toEqual([]);
    } finally {
      await browser.close();
    }
  });
});
