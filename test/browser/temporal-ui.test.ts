/**
 * Temporal's own UI with `npm start`: operators' views of a retrying delivery and of dead letters, by the links of the
 * landing page; then of a list of several endpoints, a verification and a replay job. `SIGNET_TEST_PICTURES=docs/temporal` regenerates the pictures of docs/temporal.md.
 */
import { readFile } from "node:fs/promises";
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

allowMinutes(8);

const TIMEOUT_MS = 180_000;
const PICTURES = process.env["SIGNET_TEST_PICTURES"];

interface Delivery {
  readonly id: string;
  readonly workflow_id: string | null;
  readonly state: string;
  readonly attempt_count: number;
}

/** Where the UI keeps the columns of its list, for each namespace. */
const COLUMNS_KEY = "namespace-workflow-table-columns";
/** What docs/temporal.md says to add for dead letters, in part, and for everything of a tenant. */
const COLUMNS = {
  dead: ["Status", "Workflow ID", "Type", "SignetDead", "SignetExpires"],
  mixed: ["Status", "Workflow ID", "Type", "SignetState", "SignetAttempt"],
} as const;

describe.skipIf(NO_BROWSER)("Temporal's UI", () => {
  let home: Home;
  let service: NpmStart;
  let receiver: Receiver;
  let failing: Receiver;
  let moving: Receiver;
  let browser: Awaited<ReturnType<typeof openBrowser>>;
  let page: Page;
  let base: string;
  let landing: string;
  let workflow: string;
  /** Carriers of dead letters: of the one with an attempt, and of those that followed. */
  let dead: readonly string[];
  /** The first of these. */
  let exhausted: string;

  const call = async (path: string, body?: unknown) => await callAsDemo(service.settings, path, body);

  /** Calls the operators' API. */
  async function operate(path: string): Promise<void> {
    const token = (await readFile(join(home.home, "operator-token"), "utf8")).trim();
    const answer = await fetch(`http://${service.settings["SIGNET_ADMIN_LISTEN"]}/admin/v1${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: "{}",
    });
    expect(answer.status).toBeLessThan(300);
  }

  /** Creates an endpoint of the receiver. @returns its id, once it is verified */
  async function verified(by: Receiver, type: string): Promise<string> {
    const { id } = await call("/v1/webhooks/endpoints", { url: by.url, events: [type] });
    const endpoint = String(id);
    await eventually(
      async () => (await call(`/v1/webhooks/endpoints/${endpoint}`))["state"] === "ACTIVE",
      "the endpoint's verification",
    );
    return endpoint;
  }

  /** Creates an endpoint, and an event for it that it answers with the status. @returns the endpoint's id */
  async function answered(by: Receiver, type: string, status: number): Promise<string> {
    const endpoint = await verified(by, type);
    by.answer([{ kind: "answer", status }]);
    await call("/v1/events", { type, data: {} });
    return endpoint;
  }

  /** Resolves with the carriers of an endpoint's deliveries, once there are so many that are as wanted. */
  async function carriers(
    endpoint: string,
    count: number,
    wanted: (delivery: Delivery) => boolean,
  ): Promise<readonly string[]> {
    return await eventually(
      async () => {
        const { data } = await call(`/v1/webhooks/deliveries?endpoint_id=${endpoint}`);
        const found = (data as Delivery[]).filter(wanted).flatMap(({ workflow_id: id }) => id ?? []);
        return found.length === count ? [...new Set(found)] : undefined;
      },
      "the deliveries",
      TIMEOUT_MS,
    );
  }

  /** Creates a delivery with some failed attempts; the next is minutes away. */
  async function retrying(): Promise<string> {
    const endpoint = await answered(receiver, "ui.looked_at", 500);
    const [found = ""] = await carriers(endpoint, 1, ({ attempt_count: attempts }) => attempts >= 5);
    return found;
  }

  /** Creates dead letters: one after 17 attempts, and three because its endpoint is disabled then. */
  async function deadLetters(): Promise<readonly string[]> {
    const endpoint = await answered(failing, "ui.failing", 500);
    const isDead = ({ state }: Delivery): boolean => state === "DEAD_LETTERED";
    await eventually(
      async () => {
        const { data } = await call(`/v1/webhooks/deliveries?endpoint_id=${endpoint}`);
        const [found] = data as Delivery[];
        if (found?.state === "RETRYING") {
          await call(`/v1/webhooks/deliveries/${found.id}/retry`, {});
        }
        return found !== undefined && isDead(found);
      },
      "17 attempts",
      TIMEOUT_MS,
    );
    await call(`/v1/webhooks/endpoints/${endpoint}/disable`, {});
    for (let further = 0; further < 3; further += 1) {
      await call("/v1/events", { type: "ui.failing", data: {} });
    }
    const all = await carriers(endpoint, 4, isDead);
    [exhausted = ""] = await carriers(endpoint, 1, ({ attempt_count: attempts }) => attempts === 17);
    return all;
  }

  /**
   * Creates a list of two endpoints that are verified again: first attempts wait for that.
   *
   * @returns ids of its workflow and of the verification of one of them
   */
  async function mixedList(): Promise<{ readonly list: string; readonly verification: string }> {
    const endpoints = [await verified(moving, "ui.mixed"), await verified(moving, "ui.mixed")];
    const demo = JSON.parse(await readFile(join(home.home, "demo.json"), "utf8")) as { tenant_id: string };
    const tenant = demo.tenant_id;
    await operate(`/tenants/${tenant}/hold`);
    await call("/v1/events", { type: "ui.mixed", data: {} });
    moving.answer([{ kind: "answer", status: 500 }]);
    for (const endpoint of endpoints) {
      await call(`/v1/webhooks/endpoints/${endpoint}/disable`, {});
      await call(`/v1/webhooks/endpoints/${endpoint}/enable`, {});
    }
    await operate(`/tenants/${tenant}/release`);
    const lists = await Promise.all(
      endpoints.map(async (endpoint) => await carriers(endpoint, 1, ({ state }) => state === "QUEUED")),
    );
    const [list = ""] = new Set(lists.flat());
    expect(lists).toEqual([[list], [list]]);
    const { verification } = await call(`/v1/webhooks/endpoints/${endpoints[0]}`);
    return { list, verification: (verification as { workflow_id: string }).workflow_id };
  }

  /** Starts a replay of one dead letter a second. @returns the id of its workflow */
  async function replayJob(): Promise<string> {
    moving.answer([{ kind: "answer" }]);
    const endpoint = await verified(moving, "ui.parked");
    await call(`/v1/webhooks/endpoints/${endpoint}/disable`, {});
    await call("/v1/events", {
      events: Array.from({ length: 60 }, () => ({ type: "ui.parked", data: {} })),
    });
    const { id } = await call("/v1/webhooks/dlq/replay", {
      filter: { endpoint_id: endpoint },
      rate_per_second: 1,
    });
    return `replay/${String(id)}`;
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
      SIGNET_TEMPORAL_UI_URL: base,
    });
    await service.untilPrinted(/^signet ready$/m);
    receiver = await startReceiver();
    failing = await startReceiver();
    moving = await startReceiver();
    landing = `http://${settings["SIGNET_API_LISTEN"]}/`;
    [workflow, dead] = await Promise.all([retrying(), deadLetters()]);
    browser = await openBrowser({ viewport: { width: 1_280, height: 800 } });
    page = await browser.context.newPage();
  });

  afterAll(async () => {
    await browser?.close();
    await receiver?.close();
    await failing?.close();
    await moving?.close();
    await service?.interrupt();
    await killServersOf(home.home);
    await home.remove();
  });

  /** Follows a link of the landing page to a list. @returns how many links to each workflow it has */
  async function follow(name: string, until: string): Promise<readonly number[]> {
    // Temporal's list learns of a workflow a little later.
    await eventually(async () => {
      await page.goto(landing);
      await page.getByRole("link", { name, exact: true }).click();
      await page.getByRole("link", { name: until }).first().waitFor({ timeout: 5_000 });
      return true;
    }, "the workflow in the list");
    const rows = page.locator("tbody tr");
    return await Promise.all(
      [workflow, ...dead].map(async (id) => await rows.filter({ hasText: id }).count()),
    );
  }

  /** Chooses the columns of the next page, as people do with the gear, and makes room for them. */
  async function choose(columns: readonly string[]): Promise<void> {
    await page.evaluate(
      ([key, labels]) => {
        localStorage.setItem(key, JSON.stringify({ signet: labels.map((label) => ({ label })) }));
        localStorage.setItem("savedQueryNavOpen", "false");
        localStorage.setItem("navOpen", "false");
      },
      [COLUMNS_KEY, columns] as const,
    );
  }

  test("lists what is retried and the dead letters by the links of the landing page", async () => {
    expect(dead.length).toBeGreaterThanOrEqual(2);
    const [one = ""] = dead;
    expect(await follow("Retrying", workflow)).toEqual([1, ...dead.map(() => 0)]);
    await choose(COLUMNS.dead);
    expect(await follow("Dead letters", one)).toEqual([0, ...dead.map(() => 1)]);
    expect(await page.locator("thead th").allInnerTexts()).toEqual(expect.arrayContaining([...COLUMNS.dead]));
    await picture("dead-letters");
    await choose(COLUMNS.mixed);
    await page.goto(`${base}/namespaces/signet/workflows`);
    await page.getByRole("link", { name: workflow }).first().waitFor();
    await picture("workflows");
  });

  test("shows the history of a delivery, with its attempts in words", async () => {
    await page.goto(`${base}/namespaces/signet/workflows/${workflow}`);
    await page.getByText('"offsets_ms"').first().waitFor();
    await page.getByText("Event History").first().click();
    await page
      .getByText(/^attempt 3 of 17/)
      .first()
      .waitFor();
    await page.getByText("until attempt 3 of 17").first().waitFor();
    await page.mouse.move(960, 560);
    await page.mouse.wheel(0, 560);
    await picture("delivery");
  });

  /** Opens the Current Details of a workflow, and waits for what they say. */
  async function expectDetails(workflowId: string, said: RegExp): Promise<void> {
    // A carrier is named just before its workflow starts, and the page of an unknown one stays empty.
    await eventually(async () => {
      await page.goto(`${base}/namespaces/signet/workflows/${encodeURIComponent(workflowId)}`);
      await page.getByText("User Metadata", { exact: true }).click({ timeout: 5_000 });
      return true;
    }, "the workflow's page");
    await expect.poll(async () => await allText(page), { timeout: 50_000 }).toMatch(said);
  }

  test("shows a delivery's state and possible actions", async () => {
    await expectDetails(
      workflow,
      /1 delivery to ep_[\s\S]*1 retrying[\s\S]*--name attemptNow[\s\S]*--name cancel/,
    );
    await picture("details");
  });

  test("shows the state of a dead letter, how it was answered and possible actions", async () => {
    await expectDetails(
      exhausted,
      /\d dead-lettered[\s\S]*17 of 17\s+500\s+expires[\s\S]*--name replay[\s\S]*--name cancel/,
    );
    await picture("dead-letter");
  });

  test("shows that requests to a list of several endpoints name deliveries, and a verification's pings", async () => {
    const { list, verification } = await mixedList();
    await expectDetails(
      list,
      /\d deliveries to \d endpoints[\s\S]*for several endpoints: 2 not attempted yet[\s\S]*must name[\s\S]*"delivery_ids":\["dlv_/,
    );
    await picture("mixed-list");
    await expectDetails(
      verification,
      /verification of ep_\w+, run 2[\s\S]*\d pings?, none acknowledged\. Next ping: 20[\s\S]*--name attemptNow/,
    );
    await picture("verification");
  });

  test("shows how far a replay job has come", async () => {
    await expectDetails(
      await replayJob(),
      /replay of 60, at most 1 a second[\s\S]*is RUNNING, at most 1 a second: \d+ of 60 replayed[\s\S]*--name pause[\s\S]*--name cancel/,
    );
    await picture("replay-job");
  });
});

/** Returns the text of a page and of its frames, which display Markdown. */
async function allText(page: Page): Promise<string> {
  const texts = await Promise.all(
    page.frames().map(async (frame) => await frame.locator("body").innerText()),
  );
  return texts.join("\n");
}
