/** `/errors/{slug}`, and `/` in development, in a real browser: accessible pages without scripts. */
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

allowMinutes(4);

describe.skipIf(NO_BROWSER)("the page of an error", () => {
  const api = useTestApi({ environment: { SIGNET_TEMPORAL_UI_URL: "http://127.0.0.1:8233" } });

  test("and the page at / link to what people look for", async () => {
    const browser = await openBrowser();
    try {
      const page = await browser.context.newPage();
      const complaints = complaintsOf(page);
      await page.goto(api.publicUrl);
      for (const [name, href] of [
        ["Tenant portal", "/portal"],
        ["API reference", "/docs"],
        ["Temporal", "http://127.0.0.1:8233"],
      ] as const) {
        expect(await page.getByRole("link", { name }).getAttribute("href")).toBe(href);
      }
      expect({ wrong: await lookAt(page, "development") }).toEqual({ wrong: NOTHING_WRONG });
      expect(complaints).toEqual([]);
    } finally {
      await browser.close();
    }
  });

  test("is linked from a problem's type, is accessible, and links to the others", async () => {
    const refused = await api.request("/v1/webhooks/endpoints");
    const browser = await openBrowser();
    try {
      const page = browser.context.pages()[0] ?? (await browser.context.newPage());
      const complaints = complaintsOf(page);
      await page.goto(String(refused.body["type"]));
      expect(await page.getByRole("heading", { level: 1 }).innerText()).toBe("Token missing");
      expect(await page.getByRole("heading", { level: 2, name: "What to do" }).count()).toBe(1);
      expect({ wrong: await lookAt(page, "error") }).toEqual({ wrong: NOTHING_WRONG });
      await page.getByText("All errors").click();
      expect({ wrong: await lookAt(page, "errors") }).toEqual({ wrong: NOTHING_WRONG });
      await clickThrough(page.getByRole("link", { name: "SCOPE_VIOLATION", exact: true }));
      expect(await page.getByRole("heading", { level: 1 }).innerText()).toBe("Scope violation");
      await page.goto(`${api.publicUrl}/errors/none`);
      expect(await page.getByRole("heading", { level: 1 }).innerText()).toBe("Unknown error code");
      expect({ wrong: await lookAt(page, "error-unknown") }).toEqual({ wrong: NOTHING_WRONG });
      expect(complaints).toEqual([]);
    } finally {
      await browser.close();
    }
  });
});
