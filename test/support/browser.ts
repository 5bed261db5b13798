/** A real Chromium for tests of the portal. */
import { accessSync, constants } from "node:fs";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BrowserContext, type BrowserContextOptions, chromium, type Page } from "playwright-core";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Path of a browser: `SIGNET_TEST_BROWSER`, or a distribution's path; undefined if none is found. */
export const BROWSER = [process.env["SIGNET_TEST_BROWSER"] ?? "", ...PLACES].find(isProgram);

if (BROWSER === undefined) {
  console.warn(
    `\n*** SKIPPED: browser tests of the portal. None of ${PLACES.join(", ")} exists. Install chromium, or set SIGNET_TEST_BROWSER. ***\n`,
  );
}

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

/** Opens a browser with a new profile; close it at the end. */
export async function openBrowser(
  options: BrowserContextOptions = {},
): Promise<{ readonly context: BrowserContext; close(): Promise<void> }> {
  const directory = await mkdtemp(join(tmpdir(), "signet-browser-"));
  const context = await chromium.launchPersistentContext(directory, {
    executablePath: BROWSER ?? "",
    headless: true,
    args: ["--no-sandbox", "--disable-gpu"],
    viewport: { width: 1_100, height: 800 },
    ...options,
  });
  return {
    context,
    close: async () => {
      await context.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
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

/** Returns axe-core's findings for the current page, as `rule: element: why`. */
async function violationsOf(page: Page): Promise<string[]> {
  axeSource ??= await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  await page.evaluate(axeSource);
  const found = await page.evaluate<AxeViolation[]>(
    "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations)",
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
  for (const { name: look, colorScheme, width } of LOOKS) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    wrong[look] = [
      ...(await violationsOf(page)),
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
