/** The guide at /docs/guide, in a real browser: accessible, without requests to other hosts, with and without scripts. */
import { beforeAll, describe, expect, test } from "vitest";
import { useTestApi } from "../support/api.ts";
import { complaintsOf, lookAt, NO_BROWSER, NOTHING_WRONG, openBrowser } from "../support/browser.ts";
import { allowMinutes } from "../support/limits.ts";

allowMinutes(4);

describe.skipIf(NO_BROWSER)("/docs/guide", () => {
  const api = useTestApi();
  let guide = "";
  beforeAll(() => {
    guide = `${api.publicUrl}/docs/guide`;
  });

  test("is accessible, and its search follows the keyboard", async () => {
    const browser = await openBrowser();
    try {
      const page = browser.context.pages()[0] ?? (await browser.context.newPage());
      const complaints = complaintsOf(page);
      const elsewhere: string[] = [];
      page.on("request", (request) => {
        if (!request.url().startsWith(api.publicUrl)) {
          elsewhere.push(request.url());
        }
      });
      const paths = [
        "endpoints",
        "verify-webhooks",
        "portal",
        "reference/limits",
        "decisions/0007-lean-workers",
      ];
      for (const path of ["", ...paths.map((each) => `/${each}`)]) {
        await page.goto(guide + path);
        expect({ path, wrong: await lookAt(page, `guide${path.replaceAll("/", "-")}`) }).toEqual({
          path,
          wrong: NOTHING_WRONG,
        });
      }
      await page.getByRole("navigation", { name: "Guide" }).getByText("Runbook").click();
      await page.waitForURL(`${guide}/runbook`);
      await page.keyboard.press("/");
      await page.keyboard.type("watchdog thread");
      await page.getByRole("status").getByText("found").waitFor();
      expect({ wrong: await lookAt(page, "guide-results") }).toEqual({ wrong: NOTHING_WRONG });
      await page.keyboard.press("ArrowDown");
      await page.keyboard.press("Enter");
      await page.waitForURL(`${guide}/decisions/0007-lean-workers*`);
      expect(await page.locator("a[aria-current=page]").innerText()).toMatch(/^7\. /);
      expect([elsewhere, complaints]).toEqual([[], []]);
    } finally {
      await browser.close();
    }
  });

  test("shows code in the reader's language by keyboard, and on the next page", async () => {
    const browser = await openBrowser();
    try {
      const page = browser.context.pages()[0] ?? (await browser.context.newPage());
      await page.goto(`${guide}/verify-webhooks`);
      const shown = async (): Promise<string[]> =>
        await page
          .locator(".tab:visible")
          .evaluateAll((tabs) => tabs.map(({ ariaLabel }) => ariaLabel ?? ""));
      expect(await shown()).toEqual(["TypeScript", "TypeScript"]);
      const first = page.getByRole("group", { name: "Language" }).first();
      await first.getByRole("radio", { name: "TypeScript" }).focus();
      await page.keyboard.press("ArrowRight");
      expect(await shown()).toEqual(["Python", "Python"]);
      await first.getByText("Go", { exact: true }).click();
      expect(await shown()).toEqual(["Go", "Go"]);
      expect(await page.locator(".tab:visible").first().innerText()).toContain("signet.NewReceiver");
      await page.goto(`${guide}/getting-started`);
      expect(await shown()).toEqual(["Go"]);
    } finally {
      await browser.close();
    }
  });

  test("shows code in each language when scripts are off", async () => {
    const browser = await openBrowser({ javaScriptEnabled: false });
    try {
      const page = browser.context.pages()[0] ?? (await browser.context.newPage());
      await page.goto(`${guide}/getting-started`);
      await page.getByRole("radio", { name: "TypeScript" }).focus();
      await page.keyboard.press("ArrowLeft");
      expect(await page.getByRole("group", { name: "Go" }).innerText()).toContain("signet.NewClient");
      expect(await page.getByRole("group", { name: "TypeScript" }).count()).toBe(0);
    } finally {
      await browser.close();
    }
  });

  test("searches on the service when scripts are off", async () => {
    const browser = await openBrowser({ javaScriptEnabled: false });
    try {
      const page = browser.context.pages()[0] ?? (await browser.context.newPage());
      await page.goto(`${guide}/endpoints`);
      await page.getByLabel("Search the guide").fill("watchdog <hooks>");
      await page.getByRole("button", { name: "Search" }).click();
      expect(await page.getByText("No section has").innerText()).toContain("“watchdog <hooks>”");
      await page.getByLabel("Search the guide").fill("watchdog thread");
      await page.getByLabel("Search the guide").press("Enter");
      await page.locator(".hits a").first().click();
      expect(await page.getByRole("heading", { level: 1 }).innerText()).toContain("Costly parts");
      await page.goto(`${guide}/none`);
      expect(await page.getByRole("heading", { level: 1 }).innerText()).toBe("Page not found");
    } finally {
      await browser.close();
    }
  });
});
