/** Verification of a compliance entry in a real browser: with a typed, saved, changed, or missing key. */
import { randomBytes } from "node:crypto";
import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { CheckpointKey } from "#compliance/checkpoint-key.ts";
import { useTestApi } from "../support/api.ts";
import {
  clickThrough,
  complaintsOf,
  lookAt,
  NO_BROWSER,
  NOTHING_WRONG,
  openBrowser,
  sizesOf,
} from "../support/browser.ts";
import { openTestSigner, type TestSigner } from "../support/checkpoints.ts";
import { allowMinutes } from "../support/limits.ts";
import { mintLink } from "../support/portal.ts";
import { createEndpoint, createTenant, rows, type Tenant } from "../support/tenant.ts";

allowMinutes(4);

const SCOPES = ["portal:sign_in", "webhooks:read", "webhooks:write", "compliance:read"];

/** The service's response to a proof request. */
interface ProofAnswer {
  entry: string;
  note: string;
  verifier_key: string | null;
  hashes: string[];
}

describe.skipIf(NO_BROWSER)("compliance entries", () => {
  const api = useTestApi();
  let signer: TestSigner;
  let tenant: Tenant;
  let browser: Awaited<ReturnType<typeof openBrowser>>;
  let page: Page;
  let complaints: string[];
  let index: number;

  const button = async (name: string): Promise<void> =>
    await clickThrough(page.getByRole("button", { name }));
  const keyField = () => page.getByLabel("Verifier key");
  const alert = async (): Promise<string> => await page.getByRole("alert").innerText();
  const heading = async (): Promise<string> => await page.getByRole("heading", { level: 1 }).innerText();

  async function check(name: string): Promise<void> {
    const wrong = await lookAt(page, name);
    expect({ name, wrong }).toEqual({ name, wrong: NOTHING_WRONG });
  }
  async function checkProof(key?: string): Promise<void> {
    if (key !== undefined) {
      await keyField().fill(key);
    }
    await button("Check the proof");
    await page.locator("[data-verdict] .notice").first().waitFor();
  }
  async function holds(): Promise<string> {
    const verdict = page.getByRole("status").filter({ hasText: "The proof is valid." });
    await verdict.waitFor();
    return await verdict.innerText();
  }
  /** Modifies the service's responses. */
  async function tamper(change: (answer: ProofAnswer) => void): Promise<void> {
    await page.route("**/portal/compliance/*/proof*", async (route) => {
      const response = await route.fetch();
      const answer = (await response.json()) as ProofAnswer;
      change(answer);
      await route.fulfill({ response, json: answer });
    });
  }
  async function signIn(on: Page): Promise<void> {
    await on.goto(await mintLink(api, tenant.token));
    await clickThrough(on.getByRole("button", { name: "Sign in to the portal" }));
    await on.getByRole("heading", { level: 1, name: "Home" }).waitFor();
  }

  beforeAll(async () => {
    signer = openTestSigner(api);
    tenant = await createTenant(api, SCOPES);
    await createEndpoint(api, tenant);
    await signer.sign();
    const [entry] = rows(await tenant.get("/v1/compliance/entries?type=endpoint.created"));
    index = Number(entry?.["index"]);
    browser = await openBrowser();
    page = browser.context.pages()[0] ?? (await browser.context.newPage());
    complaints = complaintsOf(page);
    await signIn(page);
  });
  beforeEach(async () => {
    await page.goto(`${api.publicUrl}/portal/compliance/${index}`);
    await page.evaluate("localStorage.clear()");
    await page.reload();
  });
  afterEach(async () => {
    await page.unrouteAll();
  });
  afterAll(async () => {
    await browser?.close();
    await signer?.close();
  });

  test("can be found from the navigation by type, and read", async () => {
    await clickThrough(page.getByRole("link", { name: "Compliance", exact: true }));
    await check("compliance");
    await page.getByLabel("Type").selectOption("endpoint.created");
    await button("Filter");
    await clickThrough(page.getByRole("link", { name: String(index), exact: true }));
    expect(await heading()).toBe(`Entry ${index}: endpoint.created`);
    await check("compliance-entry");
  });

  test("are verified with a typed key, by keyboard alone, and the key is saved", async () => {
    await keyField().focus();
    await page.keyboard.type(signer.key.verifierKey);
    await page.keyboard.press("Enter");
    const verdict = await holds();
    expect(verdict).toContain("entered here");
    expect(verdict).not.toContain("came from this service itself");
    const region = page.getByRole("region", { name: "The entry as it was signed" });
    expect(JSON.parse(await region.innerText())).toMatchObject({ idx: index, type: "endpoint.created" });
    await check("compliance-proof-holds");
    await page.reload();
    await checkProof();
    expect(await holds()).toContain("entered here");
  });

  test("are verified with the first key that the service names, with a note on its limits", async () => {
    await checkProof();
    const verdict = await holds();
    expect(verdict).toContain("It does not show that the key belongs to the operators");
    expect(verdict).toContain("run the command below on your own machine");
    await page.reload();
    expect(await page.getByText("This browser has a saved key, named by this service").count()).toBe(1);
    // The same key from another source: from then on the viewer vouches for it.
    await checkProof(signer.key.verifierKey);
    expect(await holds()).toContain("entered here");
  });

  test("are verified in a log that has grown, and rejected in one that has lost entries", async () => {
    let kept = "";
    await tamper(({ note }) => {
      kept = note;
    });
    await checkProof();
    await holds();
    await page.unrouteAll();
    await createEndpoint(api, tenant);
    await signer.sign();
    await page.reload();
    await checkProof();
    await holds();
    await tamper((answer) => {
      answer.note = kept;
    });
    await page.reload();
    await checkProof();
    expect(await alert()).toMatch(/entry \d+ is missing/);
  });

  test.each<[string, (answer: ProofAnswer) => void, string]>([
    [
      "another entry",
      (answer) => {
        const text = Buffer.from(answer.entry, "base64")
          .toString()
          .replace("endpoint.created", "tenant.created");
        answer.entry = Buffer.from(text).toString("base64");
      },
      "is not in the tree",
    ],
    [
      "another path",
      (answer) => {
        answer.hashes = answer.hashes.toReversed();
      },
      "is not in the tree",
    ],
    [
      "another root",
      (answer) => {
        const lines = answer.note.split("\n");
        lines[2] = randomBytes(32).toString("base64");
        answer.note = lines.join("\n");
      },
      "signature of signet/compliance is invalid",
    ],
  ])("are rejected visibly with %s", async (_what, change, why) => {
    await tamper(change);
    await checkProof(signer.key.verifierKey);
    const said = await alert();
    expect(said).toContain("The proof is not valid.");
    expect(said).toContain(why);
    expect(await page.getByText("This browser has no saved key yet.").count()).toBe(1);
  });

  test("are rejected after a change of key, until the saved one is removed", async () => {
    await checkProof();
    await holds();
    const stranger = new CheckpointKey("signet/compliance", randomBytes(32));
    const resign = (answer: ProofAnswer): void => {
      const [, size = "", root = ""] = answer.note.split("\n");
      answer.note = stranger.sign({ size: Number(size), root: Buffer.from(root, "base64") });
    };
    await tamper((answer) => {
      resign(answer);
      answer.verifier_key = stranger.verifierKey;
    });
    await page.reload();
    await checkProof();
    expect(await alert()).toContain("the service now names a different key");
    await check("compliance-key-changed");
    await page.unrouteAll();
    await tamper((answer) => {
      resign(answer);
      answer.verifier_key = null;
    });
    await checkProof();
    await page.getByText("not signed with the key that this browser saved").waitFor();
    // Typing the new key is not enough: the saved one must be removed explicitly.
    await checkProof(stranger.verifierKey);
    await page.getByText("the key that you entered is not the one").waitFor();
    await button("Remove the saved key");
    await checkProof(stranger.verifierKey);
    expect(await holds()).toContain("entered here");
  });

  test("are rejected with an invalid key, and with the key of another log", async () => {
    await checkProof("nonsense");
    expect(await alert()).toContain("a verifier key is name+id+key");
    const other = new CheckpointKey("signet/compliance", randomBytes(32));
    await checkProof(other.verifierKey);
    await page.getByText("none of the given keys has signed the note").waitFor();
    expect(await page.getByText("This browser has no saved key yet.").count()).toBe(1);
  });

  test("newer than the last checkpoint show that they are not covered yet", async () => {
    await createEndpoint(api, tenant);
    const [young] = rows(await tenant.get("/v1/compliance/entries?limit=1"));
    await page.goto(`${api.publicUrl}/portal/compliance/${String(young?.["index"])}`);
    expect(await page.getByText("No checkpoint covers this entry yet").count()).toBe(1);
    await checkProof();
    expect(await alert()).toContain("within a minute");
    await signer.sign();
  });

  test.each([
    [
      "cannot verify Ed25519",
      `crypto.subtle.importKey = () => Promise.reject(new DOMException("no", "NotSupportedError"));`,
      "cannot verify Ed25519",
    ],
    [
      "has no WebCrypto on a page without HTTPS",
      `Object.defineProperty(Crypto.prototype, "subtle", { value: undefined });`,
      "only on pages that use HTTPS",
    ],
  ])("show the command in a browser that %s", async (_what, script, said) => {
    const fresh = await browser.context.newPage();
    try {
      await fresh.addInitScript(script);
      await fresh.goto(`${api.publicUrl}/portal/compliance/${index}`);
      const text = await fresh.getByRole("alert").innerText();
      expect(text).toContain(said);
      expect(text).toContain("Use the command below.");
      expect(await fresh.getByText(`signet compliance verify ${index} --vkey "$VKEY"`).isVisible()).toBe(
        true,
      );
      expect(await fresh.getByRole("button", { name: "Check the proof" }).count()).toBe(0);
    } finally {
      await fresh.close();
    }
  });

  test("without JavaScript show the command, and nothing that needs it", async () => {
    const plain = await openBrowser({ javaScriptEnabled: false });
    try {
      const fresh = plain.context.pages()[0] ?? (await plain.context.newPage());
      await signIn(fresh);
      await clickThrough(fresh.getByRole("link", { name: "Compliance", exact: true }));
      await clickThrough(fresh.getByRole("link", { name: String(index), exact: true }));
      expect(await fresh.getByText(`signet compliance verify ${index} --vkey "$VKEY"`).isVisible()).toBe(
        true,
      );
      expect(await fresh.getByText("An attacker who can show a false log here").isVisible()).toBe(true);
      expect(await fresh.getByRole("button", { name: "Check the proof" }).count()).toBe(0);
    } finally {
      await plain.close();
    }
  });

  test("are at most 100 KB with all files of the page", async () => {
    const cold = await openBrowser();
    try {
      await cold.context.addCookies(await browser.context.cookies());
      const fresh = await cold.context.newPage();
      const sizes = await sizesOf(fresh, `${api.publicUrl}/portal/compliance/${index}`);
      const total = sizes.reduce((sum, size) => sum + size, 0);
      console.log(`portal: the page of a compliance entry is ${total} bytes in ${sizes.length} files`);
      expect(total).toBeLessThanOrEqual(102_400);
    } finally {
      await cold.close();
    }
  });

  test("caused no errors on any page", () => {
    expect(complaints).toEqual([]);
  });
});
