/** By the time a process has closed, its issued tokens are in the compliance log. */
import { createHash } from "node:crypto";
import { decodeJwt } from "jose";
import { expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import { startSecondApi } from "#test/support/second-api.ts";
import { createTenant, sql } from "#test/support/tenant.ts";

const api = useTestApi();

test("each tenant gets an entry with the number of its tokens and the digest of their ids", async () => {
  const tenant = await createTenant(api, ["compliance:read"]);
  const second = await startSecondApi(api);
  const ids: string[] = [];
  try {
    for (let count = 0; count < 3; count += 1) {
      const { body } = await second.request("/v1/auth/token", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({
          grant_type: "client_credentials",
          client_id: tenant.clientId,
          client_secret: tenant.clientSecret,
        }),
      });
      ids.push(String(decodeJwt(String(body["access_token"])).jti));
    }
    // Only issued tokens count: this one was not.
    const refused = await second.request("/v1/auth/token", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        grant_type: "client_credentials",
        client_id: tenant.clientId,
        client_secret: "x",
      }),
    });
    expect(refused.status).toBe(401);
  } finally {
    await second.close();
  }
  const entries = await sql<{ entry: Buffer }>(
    api,
    "SELECT entry FROM clog WHERE type = 'tokens.issued' ORDER BY idx",
  );
  expect(entries.map(({ entry }) => JSON.parse(entry.toString()) as unknown)).toEqual([
    expect.objectContaining({
      actor: "system:issuer",
      tenant: tenant.tenantId,
      target: null,
      details: {
        count: 3,
        digest: createHash("sha256")
          .update(ids.map((id) => `${id}\n`).join(""))
          .digest("hex"),
        first_at: expect.any(String) as string,
        last_at: expect.any(String) as string,
      },
    }),
  ]);
});
