/** A real Chromium for tests of the portal. */
import { accessSync, constants } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Locator,
  type Page,
  type Response,
} from "playwright-core";
import { skipUnless } from "./skips.ts";

/** The build without a window first: it starts and paints with three fifths of the CPU. */
const PLACES = [
  "/usr/bin/chromium-headless-shell",
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
];

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Path of a browser: `SIGNET_TEST_BROWSER`, or a distribution's path; undefined if none is found. */
const BROWSER = [process.env["SIGNET_TEST_BROWSER"] ?? "", ...PLACES].find(isProgram);

/** For `skipIf`: whether it is missing. */
export const NO_BROWSER = skipUnless(
  BROWSER !== undefined,
  "the tests of the portal in a browser",
  `none of ${PLACES.join(", ")} exists; .ci/programs installs the first, or set SIGNET_TEST_BROWSER`,
);

/** A combination of window width, color scheme and similar settings. */
interface Look {
  readonly name: "dark" | "light" | "phone";
  readonly colorScheme: "dark" | "light";
  readonly width: number;
}

const LOOKS: readonly Look[] = [
  { name: "light", colorScheme: "light", width: 1_100 },
  { name: "dark", colorScheme: "dark", width: 1_100 },
  { name: "phone", colorScheme: "light", width: 390 },
];

let launched: Promise<Browser> | undefined;

/** Launches the browser, once per process: it ends with the process. */
async function launch(): Promise<Browser> {
  if (launched === undefined) {
    launched = chromium.launch({
      executablePath: BROWSER ?? "",
      headless: true,
      args: ["--no-sandbox", "--disable-gpu"],
    });
    (await launched).once("disconnected", () => (launched = undefined));
  }
  return await launched;
}

/** Opens a new profile in the browser, with its own cookies, storage and cache; close it at the end. */
export async function openBrowser(
  options: BrowserContextOptions = {},
): Promise<{ readonly context: BrowserContext; close(): Promise<void> }> {
  const browser = await launch();
  const context = await browser.newContext({ viewport: { width: 1_100, height: 800 }, ...options });
  return { context, close: async () => await context.close() };
}

/** Opens an address, and returns the bytes of each file that the page needed until it was loaded. */
export async function sizesOf(page: Page, url: string): Promise<number[]> {
  const responses: Response[] = [];
  page.on("response", (response) => responses.push(response));
  await page.goto(url);
  return await Promise.all(responses.map(async (response) => (await response.body()).length));
}

/** Clicks, and waits until all of the page is there that this may open: a click waits for its beginning only. */
export async function clickThrough(locator: Locator): Promise<void> {
  await locator.click();
  await locator.page().waitForLoadState("domcontentloaded");
}

/** Collects a page's errors: script errors, and violations of its content security policy. */
export function complaintsOf(page: Page): string[] {
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) {
      complaints.push(message.text());
    }
  });
  return complaints;
}

interface AxeViolation {
  readonly id: string;
  readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

let axeSource: string | undefined;

/** Loads axe-core into the current page. */
async function loadAxe(page: Page): Promise<void> {
  axeSource ??= await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  await page.evaluate(axeSource);
}

/** What may differ between two color schemes of the same page. */
const COLOR_RULES = ["color-contrast", "link-in-text-block"];

/** Returns axe-core's findings for the current page, of all rules by default, as `rule: element: why`. */
async function violationsOf(page: Page, rules?: readonly string[]): Promise<string[]> {
  const options = { resultTypes: ["violations"], ...(rules === undefined ? {} : { runOnly: rules }) };
  const found = await page.evaluate<AxeViolation[]>(
    `axe.run(document, ${JSON.stringify(options)}).then(({ violations }) => violations)`,
  );
  return found.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html}: ${node.failureSummary}`));
}

/** Returns whether the page is wider than its window, so that a phone would need horizontal scrolling. */
async function isTooWide(page: Page): Promise<boolean> {
  return await page.evaluate<boolean>("document.documentElement.scrollWidth > window.innerWidth");
}

/** Returns the findings for every look of a page, `{look: []}` if there are none. Saves screenshots if requested. */
export async function lookAt(page: Page, name: string): Promise<Record<string, string[]>> {
  const wrong: Record<string, string[]> = {};
  await loadAxe(page);
  for (const { name: look, colorScheme, width } of LOOKS) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    wrong[look] = [
      ...(await violationsOf(page, colorScheme === "dark" ? COLOR_RULES : undefined)),
      ...((await isTooWide(page)) ? [`wider than ${width} pixels`] : []),
    ];
    const directory = process.env["SIGNET_TEST_PICTURES"];
    if (directory !== undefined) {
      await mkdir(directory, { recursive: true });
      await page.screenshot({ path: join(directory, `${name}-${look}.png`), fullPage: true });
    }
  }
  await page.setViewportSize({ width: 1_100, height: 800 });
  await page.emulateMedia({ colorScheme: "light" });
  return wrong;
}

/**
 * Like {@link lookAt}, for a page in a browser without scripts. The checks need scripts, so a second browser renders
 * the page's HTML and blocks the page's own scripts.
 */
export async function lookAtPlain(
  plain: Page,
  inspector: Page,
  name: string,
): Promise<Record<string, string[]>> {
  const [address, body] = [plain.url(), await plain.content()];
  await inspector.route("**/*", async (route) => {
    const request = route.request();
    if (request.url() === address && request.isNavigationRequest()) {
      return await route.fulfill({ body, contentType: "text/html; charset=utf-8" });
    }
    return request.resourceType() === "script" ? await route.abort() : await route.continue();
  });
  await inspector.goto(address);
  const wrong = await lookAt(inspector, name);
  await inspector.unroute("**/*");
  return wrong;
}

/** The result of {@link lookAt} for a page without findings. */
export const NOTHING_WRONG = Object.fromEntries(LOOKS.map(({ name }) => [name, []]));
