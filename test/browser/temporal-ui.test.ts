/**
 * Temporal's own UI with `npm start` and encrypted payloads: operators' view of a retrying delivery, before and after they
 * configure the codec server. `SIGNET_TEST_PICTURES=docs/temporal` regenerates the pictures of docs/temporal.md.
 */
import { readFile } from "node:fs/promises";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NO_BROWSER, openBrowser } from "../support/browser.ts";
import { eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import {
  callAsDemo,
  type Home,
  killServersOf,
  makeHome,
  type NpmStart,
  npmStart,
  ownSettings,
} from "../support/npm-start.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";

allowMinutes(4);

const TIMEOUT_MS = 180_000;
const PICTURES = process.env["SIGNET_TEST_PICTURES"];

interface Delivery {
  readonly workflow_id: string;
  readonly attempt_count: number;
}

/** A proxy to the codec server that adds the operator's token to requests without one. */
async function startProxy(admin: string, token: string): Promise<Server> {
  const [hostname = "", port = ""] = admin.split(":");
  const server = createServer((asked, answer) => {
    const authorization = asked.method === "OPTIONS" ? {} : { authorization: `Bearer ${token}` };
    const passed = request(
      {
        hostname,
        port,
        path: asked.url,
        method: asked.method,
        headers: { ...asked.headers, host: admin, ...authorization },
      },
      (got) => {
        answer.writeHead(got.statusCode ?? 502, got.headers);
        got.pipe(answer);
      },
    );
    asked.pipe(passed);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

describe.skipIf(NO_BROWSER)("Temporal's UI", () => {
  let home: Home;
  let service: NpmStart;
  let receiver: Receiver;
  let proxy: Server;
  let browser: Awaited<ReturnType<typeof openBrowser>>;
  let page: Page;
  let base: string;
  let workflow: string;

  const call = async (path: string, body?: unknown) => await callAsDemo(service.settings, path, body);

  /** Creates a delivery with some failed attempts; the next is minutes away. */
  async function retrying(): Promise<string> {
    const { id } = await call("/v1/webhooks/endpoints", { url: receiver.url, events: ["ui.looked_at"] });
    const endpoint = String(id);
    await eventually(
      async () => (await call(`/v1/webhooks/endpoints/${endpoint}`))["state"] === "ACTIVE",
      "the endpoint's verification",
    );
    receiver.answer([{ kind: "answer", status: 500 }]);
    await call("/v1/events", { type: "ui.looked_at", data: {} });
    return await eventually(
      async () => {
        const { data } = await call(`/v1/webhooks/deliveries?endpoint_id=${endpoint}&limit=1`);
        const [found] = data as Delivery[];
        return found !== undefined && found.attempt_count >= 5 ? found.workflow_id : undefined;
      },
      "five attempts",
      TIMEOUT_MS,
    );
  }

  const picture = async (name: string): Promise<void> => {
    if (PICTURES !== undefined) {
      await page.screenshot({ path: join(PICTURES, `${name}.png`) });
    }
  };

  beforeAll(async () => {
    home = await makeHome();
    const settings = await ownSettings(home.home);
    base = `http://127.0.0.1:${settings["SIGNET_EMBEDDED_TEMPORAL_UI_PORT"]}`;
    service = npmStart({
      ...settings,
      SIGNET_RETRY_WINDOW_MS: "21600000",
      SIGNET_TEMPORAL_CODEC: "on",
      SIGNET_TEMPORAL_UI_URL: base,
    });
    await service.untilPrinted(/^signet ready$/m);
    receiver = await startReceiver();
    const token = (await readFile(join(home.home, "operator-token"), "utf8")).trim();
    proxy = await startProxy(settings["SIGNET_ADMIN_LISTEN"] ?? "", token);
    workflow = await retrying();
    browser = await openBrowser({ viewport: { width: 1_280, height: 800 } });
    page = await browser.context.newPage();
  });

  afterAll(async () => {
    await browser?.close();
    proxy?.close();
    await receiver?.close();
    await service?.interrupt();
    await killServersOf(home.home);
    await home.remove();
  });

  test("lists the workflows of a saved view", async () => {
    await page.goto(
      `${base}/namespaces/signet/workflows?query=${encodeURIComponent('SignetState="RETRYING"')}`,
    );
    await page.getByRole("link", { name: workflow }).waitFor();
    await page.goto(`${base}/namespaces/signet/workflows`);
    await page.getByRole("link", { name: workflow }).waitFor();
    await picture("workflows");
  });

  test("hides an encrypted history before the codec's endpoint is configured, and shows all of it afterwards", async () => {
    await page.goto(`${base}/namespaces/signet/workflows/${workflow}`);
    await page.getByText("Event History").first().waitFor();
    expect(await page.content()).not.toContain("attempt 3 of 17");
    const { port } = proxy.address() as AddressInfo;
    await page.locator("button").nth(2).click();
    await page.getByPlaceholder("Paste your endpoint here").fill(`http://127.0.0.1:${port}/admin/v1/codec`);
    await page.getByRole("button", { name: "Apply" }).first().click();
    await page.goto(`${base}/namespaces/signet/workflows/${workflow}`);
    await page.getByText("attempt 3 of 17").first().waitFor();
    await page.getByText('"offsets_ms"').first().waitFor();
    await page.mouse.move(960, 560);
    await page.mouse.wheel(0, 560);
    await picture("delivery");
  });

  test("shows a delivery's state and possible actions", async () => {
    await page.getByText("User Metadata", { exact: true }).click();
    await page.getByText("until attempt 3 of 17").first().waitFor();
    await expect
      .poll(async () => await allText(page), { timeout: 50_000 })
      .toMatch(/1 delivery to ep_[\s\S]*1 retrying[\s\S]*--name attemptNow[\s\S]*--name cancel/);
    await picture("details");
  });
});

/** Returns the text of a page and of its frames, which display Markdown. */
async function allText(page: Page): Promise<string> {
  const texts = await Promise.all(
    page.frames().map(async (frame) => await frame.locator("body").innerText()),
  );
  return texts.join("\n");
}
