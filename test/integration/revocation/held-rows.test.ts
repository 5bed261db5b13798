/** A login of an edge holds what it may lock. Every other process goes on: it learns, admits, rejects and starts. */
import { Client } from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import { accessToken, bearer, provision } from "#test/support/factories.ts";
import { type SecondApi, startSecondApi } from "#test/support/second-api.ts";

/** Longer in total than the silence after which a process gives up its connection. */
const REVOCATIONS = 4;
const api = useTestApi();
let holder: Client;
let second: SecondApi;

beforeEach(async () => {
  second = await startSecondApi(api);
  holder = new Client({ connectionString: api.database.url });
  await holder.connect();
  await holder.query("SET ROLE signet_edge; BEGIN");
});

afterEach(async () => {
  await holder.end();
  await second.close();
});

/** Whether a process admits a token. It must know. */
async function admits(process: SecondApi, token: string): Promise<boolean> {
  const { status, body } = await process.request("/v1/credentials", { headers: bearer(token) });
  expect(status === 200 || body["code"] === "TOKEN_REVOKED", `${status} ${String(body["code"])}`).toBe(true);
  return status === 200;
}

/** What makes a process not ready. Temporal does not run here. */
async function failing(process: SecondApi): Promise<unknown> {
  return (await process.request("/readyz")).body["failing"] ?? [];
}

describe.each([
  ["all rows of followers", "SELECT FROM revocation_followers FOR UPDATE"],
  ["rows of followers that it has changed", "UPDATE revocation_followers SET seq = 0"],
  ["the whole table of followers", "LOCK TABLE revocation_followers IN SHARE ROW EXCLUSIVE MODE"],
])("while an edge's login holds %s", (_held, lock) => {
  test("revocations take effect in the bound, other tokens are admitted, and processes are ready and start", async () => {
    const other = await accessToken(api, await provision(api, { scopes: ["credentials:read"] }));
    await holder.query(lock);
    for (let turn = 0; turn < REVOCATIONS; turn += 1) {
      const client = await provision(api, { scopes: ["credentials:read"] });
      const token = await accessToken(api, client);
      expect(await admits(second, token)).toBe(true);
      await api.admin("POST", `/credentials/${client.credentialId}/revoke`, {});
      expect(await admits(second, token)).toBe(false);
      expect(await admits(second, other)).toBe(true);
      expect(await failing(second)).not.toContain("revocation");
    }
    const third = await startSecondApi(api);
    expect(await failing(third)).not.toContain("revocation");
    expect(await admits(third, other)).toBe(true);
    await third.close();
    expect(second.log.filter((line) => line.includes("revocations are not followed"))).toEqual([]);
  });
});
