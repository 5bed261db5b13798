/** Clients are made from the documents in docs/: these are the documents that the service serves. */
import { expect, test } from "vitest";
import { PUBLIC_URL, OPENAPI, readOpenApi } from "#tools/openapi-schema.ts";
import { deployedApi } from "../support/deployed-api.ts";

const api = deployedApi();

test.each([
  ["tenants", async () => await api.request("/openapi.json")],
  ["operators", async () => await api.admin("GET", "/openapi.json")],
] as const)(
  "the document for %s is what the service serves: run `npm run docs` if it fails",
  async (audience, ask) => {
    const { status, text } = await ask();
    expect(status, OPENAPI[audience]).toBe(200);
    const served = JSON.parse(text.replaceAll(api.publicUrl, PUBLIC_URL)) as unknown;
    expect(served, OPENAPI[audience]).toEqual(await readOpenApi(audience));
  },
);
