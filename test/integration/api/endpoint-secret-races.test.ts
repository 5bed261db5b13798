/** Concurrent changes of an endpoint's secret, and how the database stores it. */
import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { type Answer, useSharedApi } from "#test/support/api.ts";
import {
  accepts,
  makeRotatingEndpoint,
  rotate,
  statesOf,
  storedSecrets,
} from "#test/support/rotating-endpoint.ts";
import { signDeliveryNow, type SignedDelivery } from "#test/support/signed-delivery.ts";
import { createEndpoint, expectRefusal, sql } from "#test/support/tenant.ts";

const api = useSharedApi();

describe("concurrently", () => {
  const statuses = (answers: readonly Answer[]): number[] =>
    answers.map(({ status }) => status).toSorted((left, right) => left - right);

  test("only one of several rotations succeeds", async () => {
    const endpoint = await makeRotatingEndpoint(api);
    const answers = await Promise.all(
      Array.from({ length: 4 }, async () => await endpoint.tenant.post(`${endpoint.path}/rotate`, {})),
    );
    expect(statuses(answers)).toEqual([200, 409, 409, 409]);
    expect(await statesOf(endpoint)).toEqual([
      [2, "NEXT"],
      [1, "CURRENT"],
    ]);
  });

  test("emergency rotations run one after the other, and only the last secret remains", async () => {
    const endpoint = await makeRotatingEndpoint(api);
    const secrets = await Promise.all(
      Array.from({ length: 4 }, async () => await rotate(endpoint, { overlap_seconds: 0 })),
    );
    const signed = await signDeliveryNow(api, endpoint.tenant, endpoint.id);
    expect(secrets.filter((secret) => accepts(secret, signed))).toHaveLength(1);
    expect((await storedSecrets(api, endpoint.id)).filter((secret) => secret !== "")).toHaveLength(1);
  });

  test("an emergency rotation and an activation leave one secret, in either order", async () => {
    for (let round = 0; round < 5; round += 1) {
      const endpoint = await makeRotatingEndpoint(api);
      await rotate(endpoint);
      const [emergency] = await Promise.all([
        endpoint.tenant.post(`${endpoint.path}/rotate`, { overlap_seconds: 0 }),
        endpoint.tenant.post(`${endpoint.path}/activate`),
      ]);
      expect(emergency.status).toBe(200);
      const signed = await signDeliveryNow(api, endpoint.tenant, endpoint.id);
      expect(accepts(String(emergency.body["secret"]), signed)).toBe(true);
      expect(accepts(endpoint.secret, signed)).toBe(false);
    }
  });

  test("a deletion and a rotation leave no signing secret", async () => {
    for (let round = 0; round < 5; round += 1) {
      const endpoint = await makeRotatingEndpoint(api);
      const { tenant, path, id } = endpoint;
      const body = round % 2 === 0 ? {} : { overlap_seconds: 0 };
      const [rotated, deleted] = await Promise.all([
        tenant.post(`${path}/rotate`, body),
        tenant.send("DELETE", `/v1/webhooks/endpoints/${id}`),
      ]);
      expect(deleted.status).toBe(204);
      expect([200, 404]).toContain(rotated.status);
      expect((await storedSecrets(api, id)).every((secret) => secret === "")).toBe(true);
      expectRefusal(await tenant.get(path), 404, "NOT_FOUND");
      expectRefusal(await tenant.post(`${path}/rotate`, {}), 404, "NOT_FOUND");
    }
  });
});

describe("at rest", () => {
  test("no column of any table holds an endpoint's secret in plain text", async () => {
    const endpoint = await makeRotatingEndpoint(api);
    const key = { "idempotency-key": randomUUID() };
    const { body } = await endpoint.tenant.post(`${endpoint.path}/rotate`, {}, key);
    const tables = await sql<{ name: string }>(
      api,
      "SELECT quote_ident(table_name) AS name FROM information_schema.tables WHERE table_schema = 'public'",
    );
    expect(tables.length).toBeGreaterThan(20);
    for (const secret of [endpoint.secret, String(body["secret"])]) {
      const bytes = secret.slice("whsec_".length);
      const spellings = [
        bytes,
        Buffer.from(bytes, "base64").toString("hex"),
        Buffer.from(secret).toString("hex"),
      ];
      for (const { name } of tables) {
        const found = await sql(api, `SELECT 1 FROM ${name} AS row WHERE row::text LIKE ANY($1) LIMIT 1`, [
          spellings.map((spelling) => `%${spelling}%`),
        ]);
        expect({ name, found }).toEqual({ name, found: [] });
      }
    }
  });

  test("a ciphertext opens only in its own row, so swapped ciphertexts are rejected", async () => {
    const [one, other] = [await makeRotatingEndpoint(api), await makeRotatingEndpoint(api)];
    const sibling = await createEndpoint(api, one.tenant, { events: ["pipeline.failed"] });
    await rotate(one);
    const swap = async (left: readonly [string, number], right: readonly [string, number]): Promise<void> => {
      await sql(
        api,
        `UPDATE endpoint_secrets s SET secret = o.secret FROM endpoint_secrets o
          WHERE (s.endpoint_id, s.version, o.endpoint_id, o.version) IN (($1, $2::int, $3, $4::int), ($3, $4::int, $1, $2::int))`,
        [...left, ...right],
      );
    };
    const signing = async (): Promise<SignedDelivery> => await signDeliveryNow(api, one.tenant, one.id);
    for (const place of [
      [one.id, 2],
      [sibling.id, 1],
      [other.id, 1],
    ] as const) {
      await swap([one.id, 1], place);
      await expect(signing()).rejects.toThrow(/sealed (?:for another place|with key)/);
      await swap([one.id, 1], place);
      expect(accepts(one.secret, await signing())).toBe(true);
    }
  });
});
