/** The bootstrap operator creates the first operators and can then be switched off. */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { loadConfig } from "#config/config.ts";
import { createLogger } from "#observability/logger.ts";
import { type ApiProcess, startApi } from "#processes/api.ts";
import { readAnswer } from "#test/support/answer.ts";
import { useTestApi } from "#test/support/api.ts";
import { bearer } from "#test/support/factories.ts";
import { freePort } from "#test/support/free-port.ts";
import { createOperator, type TestOperator } from "#test/support/operators.ts";

const api = useTestApi();
const log = createLogger({ level: "silent" });

/** A second api process on the same database, with the bootstrap operator off. */
async function startWithout(more: Readonly<Record<string, string>> = {}): Promise<ApiProcess> {
  const config = loadConfig({
    ...api.environment,
    SIGNET_API_LISTEN: `127.0.0.1:${await freePort()}`,
    SIGNET_ADMIN_LISTEN: "127.0.0.1:0",
    SIGNET_BOOTSTRAP_OPERATOR: "off",
    ...more,
  });
  const temporalAddress = inject("temporalAddress");
  return await startApi({
    config: { ...config, databaseUrl: api.database.url, temporalAddress },
    log,
    clock: api.clock,
  });
}

test("the bootstrap operator cannot be switched off while no operator of role security has access", async () => {
  const { body } = await api.admin("POST", "/operators", { name: "no way in", role: "security" });
  await createOperator(api, "provision");
  await expect(startWithout()).rejects.toThrow(/SIGNET_BOOTSTRAP_OPERATOR must be on until/);
  await api.admin("POST", `/operators/${String(body["id"])}/revoke`, {});
});

describe("with the bootstrap operator switched off", () => {
  let process: ApiProcess;
  let only: TestOperator;
  let reader: TestOperator;

  beforeAll(async () => {
    only = await createOperator(api, "security");
    reader = await createOperator(api, "read");
    process = await startWithout({ SIGNET_OPERATOR_TOKEN: "" });
  });
  afterAll(async () => {
    await process.close();
  });

  async function ask(token: string, method: string, path: string, body?: unknown) {
    const response = await fetch(`http://127.0.0.1:${process.adminAddress.port}/admin/v1${path}`, {
      method,
      headers: { ...bearer(token), ...(body === undefined ? {} : { "content-type": "application/json" }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return await readAnswer(response);
  }

  test("its token is rejected, and operators' tokens work", async () => {
    expect(await ask(api.operatorToken, "GET", "/tenants")).toMatchObject({ status: 401 });
    expect(await ask(only.token, "GET", "/tenants")).toMatchObject({ status: 200 });
  });

  test("the last operator of role security cannot be locked out", async () => {
    const locked: readonly [string, string, unknown?][] = [
      ["POST", `/operators/${only.id}/revoke`, {}],
      ["PATCH", `/operators/${only.id}`, { role: "provision" }],
      ["DELETE", `/operators/${only.id}/tokens/${only.tokenId}`],
    ];
    for (const [method, path, body] of locked) {
      expect(await ask(only.token, method, path, body)).toMatchObject({
        status: 409,
        body: { code: "INVALID_STATE" },
      });
    }
    expect(await ask(only.token, "GET", `/operators/${only.id}`)).toMatchObject({
      status: 200,
      body: { role: "security", state: "ACTIVE" },
    });
    expect(await ask(only.token, "POST", `/operators/${reader.id}/revoke`, {})).toMatchObject({
      status: 200,
    });
  });

  test("if the last two revoke each other at once, one remains", async () => {
    const other = await createOperator(api, "security");
    const answers = await Promise.all([
      ask(only.token, "POST", `/operators/${other.id}/revoke`, {}),
      ask(other.token, "POST", `/operators/${only.id}/revoke`, {}),
    ]);
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
    const { body } = await api.admin("GET", "/operators?limit=100");
    const left = (body["data"] as { role: string; state: string }[]).filter(
      ({ role, state }) => role === "security" && state === "ACTIVE",
    );
    expect(left).toHaveLength(1);
  });
});

test("a configured token needs 32 characters", () => {
  const environment = { ...api.environment, SIGNET_OPERATOR_TOKEN: randomBytes(15).toString("hex") };
  expect(() => loadConfig(environment)).toThrow("SIGNET_OPERATOR_TOKEN must have 32 characters or more");
});
