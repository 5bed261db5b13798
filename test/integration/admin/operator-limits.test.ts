/** Guessing at the operators' door over HTTP. */
import { expect, test } from "vitest";
import { useTestApi } from "../../support/api.ts";
import { askAs } from "../../support/operators.ts";

const api = useTestApi();

test("an address that failed ten times gets 429 with a Retry-After that doubles, whatever it presents", async () => {
  const guess = async () => await askAs(api, "x".repeat(64), "GET", "/tenants");
  for (let count = 0; count < 10; count += 1) {
    expect(await guess()).toMatchObject({ status: 401, body: { code: "TOKEN_INVALID" } });
  }
  const waits: number[] = [];
  for (let round = 0; round < 3; round += 1) {
    const refused = await guess();
    expect(refused).toMatchObject({ status: 429, body: { code: "RATE_LIMITED" } });
    const seconds = Number(refused.headers.get("retry-after"));
    waits.push(seconds);
    expect(await api.admin("GET", "/tenants")).toMatchObject({ status: 429 });
    api.clock.advance(seconds * 1_000);
    expect(await guess()).toMatchObject({ status: 401 });
  }
  expect(waits).toEqual([5, 10, 20]);
  api.clock.advance(40_000);
  expect(await api.admin("GET", "/tenants")).toMatchObject({ status: 200 });
  expect(await guess()).toMatchObject({ status: 401 });
  expect(await api.admin("GET", "/tenants")).toMatchObject({ status: 200 });
});

test("a request without any token is no guess", async () => {
  for (let count = 0; count < 12; count += 1) {
    expect(await askAs(api, undefined, "GET", "/tenants")).toMatchObject({ status: 401 });
  }
  expect(await api.admin("GET", "/tenants")).toMatchObject({ status: 200 });
});
