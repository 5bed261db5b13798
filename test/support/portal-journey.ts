/** Shared parts of the portal's browser tests: a tenant with a real browser, api, worker and receiver. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect } from "vitest";
import type { Environment } from "#config/config.ts";
import { type TestApi, useTestApi } from "./api.ts";
import { clickThrough, complaintsOf, lookAt, lookAtPlain, NOTHING_WRONG, openBrowser } from "./browser.ts";
import { eventually } from "./eventually.ts";
import { mintLink } from "./portal.ts";
import { type Receiver, startReceiver } from "./receiver-server.ts";
import { createTenant, type Tenant } from "./tenant.ts";

/** Readers with and without JavaScript; both can complete every journey. */
export const READERS = [
  { name: "with JavaScript", javaScript: true },
  { name: "without JavaScript", javaScript: false },
] as const;

const TIMEOUT_MS = 120_000;

export interface JourneyOptions {
  readonly javaScript: boolean;
  readonly scopes: readonly string[];
  readonly environment?: Environment;
}

/** Use its members in tests and later hooks. */
export interface Journey {
  readonly api: TestApi;
  readonly tenant: Tenant;
  readonly receiver: Receiver;
  readonly page: Page;
  /** Errors of pages so far: script errors, and violations of their content security policy. */
  readonly complaints: readonly string[];
  /** Registers an endpoint of the receiver, waits until it is verified, and returns its id. */
  addEndpoint(path: string, events: readonly string[]): Promise<string>;
  /** Opens a page of the portal. */
  open(path: string): Promise<void>;
  press(button: string): Promise<void>;
  follow(link: string): Promise<void>;
  heading(): Promise<string>;
  /** Checks the current page with axe, in light and dark, and for horizontal scrolling on a phone. */
  check(name: string): Promise<void>;
  /** Waits until the page shows something. Without JavaScript, reloads the page. */
  until(shows: () => Promise<boolean>, what: string): Promise<void>;
}

/** Starts everything, signs in, and closes everything at the end. */
export function useJourney({ javaScript, scopes, environment }: JourneyOptions): Journey {
  const api = useTestApi({ worker: true, ...(environment === undefined ? {} : { environment }) });
  let started: Pick<Journey, "tenant" | "receiver" | "page" | "complaints">;
  const browsers: Awaited<ReturnType<typeof openBrowser>>[] = [];
  let inspector: Page | undefined;

  async function openPage(options: { readonly javaScriptEnabled: boolean }): Promise<Page> {
    const browser = await openBrowser(options);
    browsers.push(browser);
    return browser.context.pages()[0] ?? (await browser.context.newPage());
  }

  beforeAll(async () => {
    const receiver = await startReceiver();
    const tenant = await createTenant(api, scopes);
    const page = await openPage({ javaScriptEnabled: javaScript });
    started = { receiver, tenant, page, complaints: complaintsOf(page) };
    await page.goto(await mintLink(api, tenant.token));
    await page.getByRole("button", { name: "Sign in to the portal" }).click();
    await page.getByRole("heading", { level: 1, name: "Home" }).waitFor();
  });
  afterAll(async () => {
    await Promise.all(browsers.map(async (browser) => await browser.close()));
    await started?.receiver.close();
  });

  return {
    api,
    get tenant() {
      return started.tenant;
    },
    get receiver() {
      return started.receiver;
    },
    get page() {
      return started.page;
    },
    get complaints() {
      return started.complaints;
    },
    async addEndpoint(path, events) {
      const { tenant, receiver } = started;
      const made = await tenant.post("/v1/webhooks/endpoints", { url: receiver.url + path, events });
      expect(made).toMatchObject({ status: 201 });
      const id = String(made.body["id"]);
      await eventually(
        async () => (await tenant.get(`/v1/webhooks/endpoints/${id}`)).body["state"] === "ACTIVE",
        `the verification of ${path}`,
      );
      return id;
    },
    open: async (path) => void (await started.page.goto(`${api.publicUrl}/portal${path}`)),
    press: async (name) => await clickThrough(started.page.getByRole("button", { name, exact: true })),
    follow: async (name) => await clickThrough(started.page.getByRole("link", { name, exact: true })),
    heading: async () => await started.page.getByRole("heading", { level: 1 }).innerText(),
    check: async (name) => {
      const { page } = started;
      inspector ??= javaScript ? page : await openPage({ javaScriptEnabled: true });
      const wrong = await (javaScript ? lookAt(page, name) : lookAtPlain(page, inspector, `${name}-plain`));
      expect({ name, wrong }).toEqual({ name, wrong: NOTHING_WRONG });
    },
    until: async (shows, what) => {
      await eventually(
        async () => {
          if (await shows()) {
            return true;
          }
          if (!javaScript) {
            await started.page.reload();
          }
          return false;
        },
        what,
        TIMEOUT_MS,
      );
    },
  };
}
