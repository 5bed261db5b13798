/** The API reference at /docs, in a real browser: it renders without requests to other hosts. */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { useTestApi } from "../support/api.ts";
import { NO_BROWSER, openBrowser } from "../support/browser.ts";
import { allowMinutes } from "../support/limits.ts";

allowMinutes(4);

const VENDOR = join(import.meta.dirname, "..", "..", "src", "api", "vendor");

test("the vendored script matches its note", async () => {
  const script = gunzipSync(await readFile(join(VENDOR, "scalar.js.gz")));
  expect(await readFile(join(VENDOR, "README.md"), "utf8")).toContain(
    createHash("sha256").update(script).digest("hex"),
  );
});

describe.skipIf(NO_BROWSER)("/docs", () => {
  const api = useTestApi();

  test("renders the API description without a request to another host", async () => {
    const browser = await openBrowser({ javaScriptEnabled: true });
    try {
      const page = browser.context.pages()[0] ?? (await browser.context.newPage());
      const { host } = new URL(api.publicUrl);
      const elsewhere: string[] = [];
      const refused: string[] = [];
      page.on("request", (request) => {
        const url = new URL(request.url());
        if (/^https?:$|^wss?:$/.test(url.protocol) && url.host !== host) {
          elsewhere.push(request.url());
        }
      });
      page.on("console", (message) => {
        if (/Content Security Policy/i.test(message.text())) {
          refused.push(message.text());
        }
      });
      await page.goto(`${api.publicUrl}/docs`);
      await page.getByText("Issue an access token").first().waitFor({ timeout: 50_000 });
      await page.getByText("endpoints", { exact: true }).first().click();
      await page.getByText("Register an endpoint").first().click();
      await page.getByRole("heading", { name: "Register an endpoint" }).first().waitFor({ timeout: 50_000 });
      await page.mouse.wheel(0, 20_000);
      // A section is rendered when it is scrolled into view, and what it requests starts with its rendering.
      await page.evaluate(
        "new Promise((resolve) => requestIdleCallback(() => requestAnimationFrame(resolve), { timeout: 5000 }))",
      );
      expect(elsewhere).toEqual([]);
      // Requests that it would have sent without the policy.
      expect(refused).toEqual([]);
    } finally {
      await browser.close();
    }
  });
});
