/**
 * Runs each `temporal` command in the runbook and related documents, and the query of each view, unchanged against a
 * system with deliveries, dead letters, jobs and verifications.
 */
import { beforeAll, describe, expect, test } from "vitest";
import { replayWorkflowId, TASK_QUEUES, verifyWorkflowId, WORKFLOW_TYPES } from "#workflows/messages.ts";
import { reportsProblems } from "#temporal/client.ts";
import { queryOf, VIEWS } from "#temporal/views.ts";
import { type DocumentLine, shellLines } from "#test/support/documents.ts";
import { eventually } from "#test/support/eventually.ts";
import { type Receiver, startReceiver } from "#test/support/receiver-server.ts";
import { seedDeadLetters } from "#test/support/seeded-letters.ts";
import { paste, untilTaken } from "#test/support/temporal-cli.ts";
import { useWorld } from "#test/support/world.ts";

const DOCUMENTS = ["temporal", "runbook", "dead-letters", "operations"].map((name) => `docs/${name}.md`);
const made = useWorld({ retryWindowMs: 1_000, listMax: 1 });

/**
 * All `temporal` commands, except those that need the certificates of the compose file's internal CA, and those for
 * versions of workers (test/workflows/worker-versioning.test.ts).
 */
async function commands(): Promise<readonly DocumentLine[]> {
  const lines = await Promise.all(DOCUMENTS.map(shellLines));
  return lines
    .flat()
    .filter(({ text }) => /^temporal (?!worker deployment )/.test(text) && !text.includes("--tls-"));
}

const every = await commands();
/** Replays go to this receiver: failures would cause retries during the rest of the run. */
let healthy: Receiver;
let failing: Receiver;

beforeAll(async () => {
  await made.current.startWorker();
  healthy = await startReceiver();
  failing = await startReceiver({ script: [{ kind: "answer", status: 500 }] });
  return async () => await Promise.all([healthy.close(), failing.close()]);
});

interface Subject {
  readonly tenant: string;
  readonly endpoint: string;
  readonly delivery: string;
}

async function bare(receiver: Receiver): Promise<Subject> {
  const tenant = await made.current.createTenant();
  const { id: endpoint } = await made.current.createEndpoint(tenant, receiver.url);
  return { tenant, endpoint, delivery: "" };
}

/** Creates a tenant with a dead letter, whose first workflow waits in its quiet run. */
async function deadLetter(): Promise<Subject> {
  const world = made.current;
  const subject = await bare(failing);
  const { deliveries } = await world.publish(subject.tenant);
  const delivery = deliveries[0]?.id ?? "";
  await world.untilDelivery(subject.tenant, delivery, ({ state }) => state === "DEAD_LETTERED");
  const handle = world.temporal.workflow.getHandle(delivery);
  const quiet = `SignetDelivery="${delivery}" AND CloseTime IS NULL AND SignetState="DEAD_LETTERED"`;
  await eventually(async () => {
    const { workflowExecutionInfo: info } = (await handle.describe()).raw;
    const found = await world.temporal.workflow.count(quiet);
    return info?.firstRunId !== info?.execution?.runId && found.count === 1;
  }, "the quiet run to be visible");
  return { ...subject, delivery };
}

let shared: Promise<Subject> | undefined;

/** Read-only commands may share a dead letter; each signal gets its own. */
async function subjectFor(text: string): Promise<Subject> {
  if (text.includes("verify/")) {
    // A healthy receiver would end the verification before the signal arrives.
    return await bare(failing);
  }
  if (text.includes("rpl_…")) {
    return await bare(healthy);
  }
  if (text.includes("workflow signal")) {
    return await deadLetter();
  }
  shared ??= deadLetter();
  return await shared;
}

/** Creates a long-running job and returns its id. */
async function job({ tenant, endpoint }: Subject): Promise<string> {
  const world = made.current;
  await seedDeadLetters(world.sql, { tenantId: tenant, endpointId: endpoint, count: 200 });
  const { id, ...rest } = await world.makeReplay(tenant, { selection: { filter: {} }, ratePerSecond: 1 });
  world.replays.kick({ id, ...rest });
  const handle = world.temporal.workflow.getHandle(replayWorkflowId(id));
  await eventually(
    async () =>
      await handle.describe().then(
        () => true,
        () => undefined,
      ),
    "the job's workflow",
  );
  return id;
}

async function verification(endpoint: string): Promise<void> {
  const world = made.current;
  await world.sql.query("UPDATE endpoints SET state = 'PENDING' WHERE id = $1", [endpoint]);
  await world.temporal.workflow.start(WORKFLOW_TYPES.verifyEndpoint, {
    workflowId: verifyWorkflowId(endpoint, 1),
    taskQueue: TASK_QUEUES.verification,
    args: [{ v: 2, endpoint_id: endpoint, generation: 1, offsets_ms: [0, 3_600_000] }],
  });
}

/** Replaces `dlv_…` and similar placeholders by existing ids. */
async function fill(text: string, subject: Subject): Promise<string> {
  if (text.includes("verify/")) {
    await verification(subject.endpoint);
  }
  return text
    .replaceAll("--namespace signet", `--namespace ${made.current.config.temporalNamespace}`)
    .replaceAll("rpl_…", text.includes("rpl_…") ? await job(subject) : "")
    .replaceAll(/dlv_…|\bCARRIER\b/g, subject.delivery)
    .replaceAll("ep_…", subject.endpoint)
    .replaceAll("ten_…", subject.tenant);
}

test("every document has commands", () => {
  expect(new Set(every.map(({ document }) => document))).toEqual(new Set(DOCUMENTS));
});

describe.concurrent("a command works unchanged", () => {
  test.each(every)("$document: $text", async ({ text }) => {
    const world = made.current;
    const subject = await subjectFor(text);
    const filled = await fill(text, subject);
    await untilTaken(async () => await paste(world.config.temporalAddress, filled));
    if (text.includes("--name replay")) {
      await world.untilDelivery(subject.tenant, subject.delivery, ({ cycle }) => cycle === 2);
    } else if (subject.delivery !== "" && text.includes("--name cancel")) {
      await world.untilDelivery(subject.tenant, subject.delivery, ({ state }) => state === "CANCELLED");
    }
  });
});

describe.concurrent("the query of a view is valid and finds its target", () => {
  const { stuck, ...others } = VIEWS;
  const FOUND: readonly unknown[] = [
    VIEWS.deadLetters,
    VIEWS.oneEndpoint,
    VIEWS.oneTenant,
    VIEWS.oneDelivery,
  ];
  test.each(Object.values(others))("$name", async (view) => {
    const world = made.current;
    const filled = await fill(view.query, await subjectFor(view.query));
    const { count } = await world.temporal.workflow.count(filled);
    expect(count).toBeGreaterThanOrEqual(FOUND.includes(view) ? 1 : 0);
  });

  test("dead letters that expire within the time of a link", async () => {
    const world = made.current;
    const { delivery } = await subjectFor("");
    const found = async (afterMs: number): Promise<number> => {
      const time = new Date(Date.now() + afterMs).toISOString();
      const query = `${queryOf(VIEWS.expiringToday, time)} AND ${queryOf(VIEWS.oneDelivery, delivery)}`;
      return (await world.temporal.workflow.count(query)).count;
    };
    expect(await found(0)).toBe(0);
    expect(await found(world.config.deadLetterMs)).toBe(1);
  });

  // test/containers/temporal.ts has a stuck workflow, on a server that names it.
  test("pages link to stuck workflows exactly if the server accepts the query", async () => {
    const { temporal } = made.current;
    const accepted = temporal.workflow.count(stuck.query).then(
      () => true,
      () => false,
    );
    expect(await reportsProblems(temporal)).toBe(await accepted);
  });
});
