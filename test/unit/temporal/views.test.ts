import { expect, test } from "vitest";
import { openViews, workflowsOfUrl } from "#temporal/views.ts";

const UI = { uiUrl: "http://temporal.test", namespace: "a b" };
const NOW = Date.parse("2026-01-30T12:00:00Z");

async function links(reportsProblems: boolean, uiUrl: string | undefined = UI.uiUrl) {
  return await openViews(
    { ...UI, uiUrl, reportsProblems: async () => await Promise.resolve(reportsProblems) },
    NOW,
  );
}

test("links to what expires within 24 hours of the given time", async () => {
  const { url = "" } = (await links(false)).find(({ name }) => name === "Expiring today") ?? {};
  expect(url).toMatch(/^http:\/\/temporal\.test\/namespaces\/a%20b\/workflows\?query=SignetExpires/);
  expect(new URL(url).searchParams.get("query")).toBe(
    'SignetExpires < "2026-01-31T12:00:00.000Z" AND SignetDead > 0 AND CloseTime IS NULL',
  );
});

test("links to stuck workflows only where the server has their attribute", async () => {
  const names = async (known: boolean) => (await links(known)).map(({ name }) => name);
  expect(await names(false)).not.toContain("Stuck");
  expect(await names(true)).toEqual([
    "Retrying",
    "Dead letters",
    "Expiring today",
    "Stuck",
    "Verifications",
    "Replay jobs",
  ]);
});

test.each([
  ["ten_1", 'SignetTenant="ten_1"'],
  ["ep_1", 'SignetEndpoint="ep_1"'],
  ["dlv_1", 'SignetDelivery="dlv_1"'],
])("lists everything of %s", (id, query) => {
  expect(new URL(workflowsOfUrl(UI, id) ?? "").searchParams.get("query")).toBe(query);
});

test("links to the workflow of a replay job", () => {
  const id = `rpl_${"0".repeat(24)}`;
  expect(workflowsOfUrl(UI, id)).toBe(`http://temporal.test/namespaces/a%20b/workflows/replay%2F${id}`);
});

test("has no links for another id, or without the address of Temporal's UI", async () => {
  expect(workflowsOfUrl(UI, "evt_1")).toBeUndefined();
  expect(workflowsOfUrl(UI, "")).toBeUndefined();
  expect(workflowsOfUrl({ ...UI, uiUrl: undefined }, "ep_1")).toBeUndefined();
  expect(
    await openViews(
      { ...UI, uiUrl: undefined, reportsProblems: async () => await Promise.resolve(true) },
      NOW,
    ),
  ).toEqual([]);
});
