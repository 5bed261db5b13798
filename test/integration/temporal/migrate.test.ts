/** `signet migrate` against a Temporal that allows less than everything, as Temporal Cloud does. */
import { randomBytes } from "node:crypto";
import { Connection } from "@temporalio/client";
import { msToTs, tsToMs } from "@temporalio/common/lib/time.js";
import { afterAll, beforeAll, beforeEach, describe, expect, inject, test } from "vitest";
import { RETENTION_MS, SEARCH_ATTRIBUTE_TYPES } from "#temporal/namespace.ts";
import { certificateFiles, newRoot, today } from "#test/support/certificates.ts";
import { eventually } from "#test/support/eventually.ts";
import { useTestDatabase } from "#test/support/services.ts";
import { type Run, startSignet } from "#test/support/signet-command.ts";
import { paste } from "#test/support/temporal-cli.ts";
import { type Refusal, startTemporalProxy, type TemporalProxy } from "#test/support/temporal-proxy.ts";

const NAME = "temporal.test";
const DAY_MS = 86_400_000;
/** Calls that need an administrator. */
const ADMINISTRATORS = [
  "RegisterNamespace",
  "UpdateNamespace",
  "ListSearchAttributes",
  "AddSearchAttributes",
];
const ATTRIBUTES =
  "--name SignetTenant --type KeywordList --name SignetEndpoint --type KeywordList --name SignetDelivery --type KeywordList --name SignetState --type Keyword --name SignetOpen --type Int --name SignetAttempt --type Int --name SignetDead --type Int --name SignetExpires --type Datetime";

const database = useTestDatabase();
const files = certificateFiles();
let refusals: Readonly<Record<string, Refusal>>;
let proxy: TemporalProxy;
let caFile: string;
let connection: Connection;
let namespace: string;

beforeAll(async () => {
  const root = await newRoot("Temporal CA");
  const pair = await root.issue({
    subject: "CN=temporal",
    names: [{ type: "dns", value: NAME }],
    purposes: ["serverAuth"],
    ...today(),
  });
  proxy = await startTemporalProxy(pair, ({ method }) => refusals[method]);
  caFile = files.write("ca.pem", root.cert);
  connection = await Connection.connect({ address: inject("temporalAddress") });
});

afterAll(async () => {
  await connection.close();
  proxy.close();
  files.remove();
});

beforeEach(() => {
  namespace = `n${randomBytes(6).toString("hex")}`;
  refusals = Object.fromEntries(ADMINISTRATORS.map((method) => [method, "PERMISSION_DENIED"]));
});

async function migrate(): Promise<Run> {
  return await startSignet(["migrate"], {
    SIGNET_ENV: "development",
    SIGNET_DATABASE_URL: database.url,
    SIGNET_DATABASE_ADMIN_URL: database.adminUrl,
    TEMPORAL_ADDRESS: proxy.address,
    TEMPORAL_NAMESPACE: namespace,
    TEMPORAL_TLS_SERVER_CA_CERT_PATH: caFile,
    TEMPORAL_TLS_SERVER_NAME: NAME,
  }).ended;
}

/** Commands in the message. */
const commandsIn = ({ stderr }: Run): string[] =>
  stderr.split("\n").flatMap((line) => (line.startsWith("  ") ? [line.trim()] : []));

/** Runs the commands as an administrator, whose own access this test does not limit. */
async function asAdministrator(commands: readonly string[]): Promise<void> {
  for (const command of commands) {
    const line = command.replaceAll(proxy.address, inject("temporalAddress"));
    // For a second, the server does not know a new namespace everywhere.
    await eventually(
      async () =>
        await paste(inject("temporalAddress"), line).then(
          () => true,
          (error: unknown) => {
            if (!/is not found/.test(String(error))) {
              throw error;
            }
            return false;
          },
        ),
      "the command to find the namespace",
    );
  }
}

async function register(days: number): Promise<void> {
  const workflowExecutionRetentionPeriod = msToTs(days * DAY_MS);
  await connection.workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod });
}

async function state(): Promise<{ readonly retentionMs: number; readonly attributes: string[] }> {
  const { config } = await connection.workflowService.describeNamespace({ namespace });
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  return {
    retentionMs: tsToMs(config?.workflowExecutionRetentionTtl),
    attributes: Object.keys(customAttributes ?? {}).sort(),
  };
}

const ALL_ATTRIBUTES = Object.keys(SEARCH_ATTRIBUTE_TYPES).sort();

describe.each<[what: string, refusal: Refusal]>([
  ["refuses an administrator's calls", "PERMISSION_DENIED"],
  ["does not serve an administrator's calls", "UNIMPLEMENTED"],
])("where Temporal %s", (_what, refusal) => {
  beforeEach(() => {
    refusals = Object.fromEntries(ADMINISTRATORS.map((method) => [method, refusal]));
  });

  test("the namespace is left to an administrator, whose commands migrate prints", async () => {
    const first = await migrate();
    expect(first.stderr).toContain(`lacks the permission to prepare Temporal namespace ${namespace}`);
    const where = `--namespace ${namespace} --address ${proxy.address}`;
    expect(commandsIn(first)).toEqual([
      `temporal operator namespace create ${where} --retention 72h`,
      `temporal operator search-attribute create ${where} ${ATTRIBUTES}`,
    ]);
    expect(first.code).toBe(4);

    await asAdministrator(commandsIn(first));
    expect(await state()).toEqual({ retentionMs: RETENTION_MS, attributes: ALL_ATTRIBUTES });
    const second = await migrate();
    expect(second.stderr).toBe("");
    expect(second.code).toBe(0);
  });

  test("only what is missing is asked for", async () => {
    await register(1);
    await asAdministrator([
      `temporal operator search-attribute create --namespace ${namespace} --address ${proxy.address} --name SignetState --type Keyword`,
    ]);
    const run = await migrate();
    const where = `--namespace ${namespace} --address ${proxy.address}`;
    expect(commandsIn(run)).toEqual([
      `temporal operator namespace update ${where} --retention 72h`,
      `temporal operator search-attribute create ${where} ${ATTRIBUTES.replace("--name SignetState --type Keyword ", "")}`,
    ]);
    expect(run.code).toBe(4);
    await asAdministrator(commandsIn(run));
    expect((await migrate()).code).toBe(0);
  });
});

test("a longer retention needs no right to change it", async () => {
  await register(30);
  refusals = { UpdateNamespace: "PERMISSION_DENIED" };
  const before = proxy.calls.length;
  const run = await migrate();
  expect(run).toMatchObject({ code: 0, stderr: "" });
  expect(await state()).toEqual({ retentionMs: 30 * DAY_MS, attributes: ALL_ATTRIBUTES });
  expect(proxy.calls.slice(before).some(({ method }) => method === "UpdateNamespace")).toBe(false);
});

test("a namespace that this process may not read is reported in the same way", async () => {
  refusals = { ...refusals, DescribeNamespace: "PERMISSION_DENIED" };
  const run = await migrate();
  expect(run.code).toBe(4);
  expect(commandsIn(run)).toHaveLength(2);
});
