import { randomBytes } from "node:crypto";
import { Client, Connection } from "@temporalio/client";
import { defineSearchAttributeKey, SearchAttributeType, TypedSearchAttributes } from "@temporalio/common";
import { encodeSearchAttributeIndexedValueType } from "@temporalio/common/lib/search-attributes.js";
import { msToTs, tsToMs } from "@temporalio/common/lib/time.js";
import { afterAll, beforeAll, beforeEach, expect, inject, it, vi } from "vitest";
import { ensureNamespace, RETENTION_MS } from "#temporal/namespace.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

/** temporal.api.enums.v1.IndexedValueType */
const KEYWORD = 2;
const INT = 3;
const DATETIME = 6;
const KEYWORD_LIST = 7;

const WIRE = {
  SignetTenant: KEYWORD_LIST,
  SignetEndpoint: KEYWORD_LIST,
  SignetDelivery: KEYWORD_LIST,
  SignetState: KEYWORD,
  SignetOpen: INT,
  SignetAttempt: INT,
  SignetDead: INT,
  SignetExpires: DATETIME,
};

let connection: Connection;
let namespace: string;

beforeAll(async () => {
  connection = await Connection.connect({ address: inject("temporalAddress") });
});

afterAll(async () => {
  await connection.close();
});

beforeEach(() => {
  namespace = `n${randomBytes(6).toString("hex")}`;
});

async function ensure(name: string): Promise<void> {
  await ensureNamespace(connection, {
    timers: machineTimers,
    namespace: name,
    address: inject("temporalAddress"),
  });
}

async function attributes(): Promise<Record<string, unknown>> {
  const found = await connection.operatorService.listSearchAttributes({ namespace });
  return { ...found.customAttributes };
}

async function retentionMs(): Promise<number> {
  const { config } = await connection.workflowService.describeNamespace({ namespace });
  return tsToMs(config?.workflowExecutionRetentionTtl);
}

/** Registers a namespace as an operator would, with one keyword attribute. */
async function register(days: number, attribute: string): Promise<void> {
  const workflowExecutionRetentionPeriod = msToTs(days * 86_400_000);
  await connection.workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod });
  const type = encodeSearchAttributeIndexedValueType("KEYWORD");
  await connection.operatorService.addSearchAttributes({
    namespace,
    searchAttributes: type === undefined ? {} : { [attribute]: type },
  });
}

it("a missing namespace is created with 72 hours of retention and eight search attributes, ready for starts and queries", async () => {
  await ensure(namespace);
  expect(await attributes()).toEqual(WIRE);
  expect(await retentionMs()).toBe(259_200_000);
  const client = new Client({ connection, namespace });
  const state = defineSearchAttributeKey("SignetState", SearchAttributeType.KEYWORD);
  const tenant = defineSearchAttributeKey("SignetTenant", SearchAttributeType.KEYWORD_LIST);
  await client.workflow.start("deliver", {
    workflowId: "dlv_1",
    taskQueue: "signet-deliveries",
    typedSearchAttributes: new TypedSearchAttributes([
      { key: state, value: "QUEUED" },
      { key: tenant, value: ["ten_1", "ten_2"] },
    ]),
  });
  await vi.waitFor(
    async () => {
      const { count } = await client.workflow.count('SignetTenant = "ten_2" AND SignetState = "QUEUED"');
      expect(count).toBe(1);
    },
    { timeout: 50_000 },
  );
});

it("ensuring a namespace again, also concurrently, changes nothing", async () => {
  await Promise.all(Array.from({ length: 4 }, async () => await ensure(namespace)));
  await ensure(namespace);
  expect(await attributes()).toEqual(WIRE);
  expect(await retentionMs()).toBe(RETENTION_MS);
});

it("an operator's namespace gets the missing retention and attributes", async () => {
  await register(1, "SignetState");
  await ensure(namespace);
  expect(await attributes()).toEqual(WIRE);
  expect(await retentionMs()).toBe(RETENTION_MS);
});

it("an operator's longer retention remains", async () => {
  await register(30, "SignetState");
  await ensure(namespace);
  expect(await attributes()).toEqual(WIRE);
  expect(await retentionMs()).toBe(30 * 86_400_000);
});

it("an attribute of the wrong type is reported", async () => {
  await register(3, "SignetOpen");
  await expect(ensure(namespace)).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message: expect.stringMatching(
      new RegExp(`^search attribute SignetOpen of Temporal namespace ${namespace} `),
    ),
  });
});

it("the test run's namespaces are all prepared", async () => {
  for (const prepared of inject("temporalNamespaces")) {
    namespace = prepared;
    expect(await attributes()).toEqual(WIRE);
  }
});
