/** Guessing operator tokens over HTTP. */
import { expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { askAs, createOperator } from "#test/support/operators.ts";
import { sql } from "#test/support/tenant.ts";

const api = useTestApi();

test("a request without a token is not a guess", async () => {
  for (let count = 0; count < 12; count += 1) {
    expect(await askAs(api, undefined, "GET", "/tenants")).toMatchObject({ status: 401 });
  }
  expect(await api.admin("GET", "/tenants")).toMatchObject({ status: 200 });
});

test("after ten failures from its address a wrong token must wait, twice as long after each early attempt, which is logged once", async () => {
  const guess = async () => await askAs(api, "x".repeat(64), "GET", "/tenants");
  for (let count = 0; count < 10; count += 1) {
    expect(await guess()).toMatchObject({ status: 401, body: { code: "TOKEN_INVALID" } });
  }
  const waits: number[] = [];
  for (let round = 0; round < 3; round += 1) {
    const refused = await guess();
    expect(refused).toMatchObject({ status: 429, body: { code: "RATE_LIMITED" } });
    waits.push(Number(refused.headers.get("retry-after")));
  }
  expect(waits).toEqual([10, 20, 40]);
  const rows = await sql(api, "SELECT convert_from(entry, 'UTF8') AS entry FROM clog ORDER BY idx");
  const noted = (rows as { entry: string }[]).map(({ entry }) => JSON.parse(entry) as unknown);
  expect(noted).toMatchObject([
    { type: "operator.refused", actor: "system:admin-api", details: { code: "TOKEN_INVALID" } },
    { type: "operator.refused", actor: "system:admin-api", details: { code: "RATE_LIMITED" } },
  ]);
  expect(JSON.stringify(noted)).not.toMatch(/127\.0\.0\.1|xxxx/);
});

test("a valid operator token is never rejected because of others' failures at its address", async () => {
  const { token } = await createOperator(api, "security");
  const guess = async (): Promise<number> => (await askAs(api, "y".repeat(64), "GET", "/tenants")).status;
  await eventually(async () => (await guess()) === 429, "the address to be beyond its limit");
  expect(await askAs(api, token, "GET", "/tenants")).toMatchObject({ status: 200 });
  // The success cleared the address's failures.
  await eventually(async () => (await guess()) === 429, "the address to be beyond its limit again");
  expect(await api.admin("GET", "/tenants")).toMatchObject({ status: 200 });
});
