/** An operator's signal or Update reaches what it names and nothing else. It is answered, shown and logged. */
import { readFileSync } from "node:fs";
import { type WorkflowHandle, WorkflowUpdateFailedError } from "@temporalio/client";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { setTenantHold } from "#database/repositories/tenants.ts";
import type { WorkerProcess } from "#processes/worker.ts";
import {
  attemptNowSignal,
  attemptNowUpdate,
  cancelUpdate,
  type DeadLetterInput,
  type MemberSignal,
  replayUpdate,
  TASK_QUEUES,
} from "#workflows/messages.ts";
import { eventually } from "../support/eventually.ts";
import { labelledBlocks } from "../support/documents.ts";
import { detailsOf, fetchRuns, summariesOf } from "../support/histories.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { paste, signalByCli } from "../support/temporal-cli.ts";
import { useWorld } from "../support/world.ts";

// Deliveries that wait when the worker starts share a list.
const made = useWorld({ retryWindowMs: 1_000 });
/** Its attempts are far apart. */
const slow = useWorld({ retryWindowMs: 259_200_000 });
const FAILURE = { kind: "answer", status: 500 } as const;

interface Group {
  readonly tenant: string;
  readonly endpoint: string;
  readonly receiver: Receiver;
  readonly ids: readonly string[];
}

async function publishGroup(count: number): Promise<Group> {
  const world = made.current;
  const receiver = await startReceiver({ script: [FAILURE] });
  const tenant = await world.createTenant();
  const { id: endpoint } = await world.createEndpoint(tenant, receiver.url);
  const published = await Promise.all(Array.from({ length: count }, async () => await world.publish(tenant)));
  return { tenant, endpoint, receiver, ids: published.map(({ deliveries }) => deliveries[0]?.id ?? "") };
}

interface Entry {
  readonly actor: string;
  readonly target: string;
  readonly reason: string | null;
  readonly details: Readonly<Record<string, unknown>>;
}

async function entriesOf(tenant: string, type: string, world = made.current): Promise<Entry[]> {
  const { rows } = await world.sql.query<{ entry: Buffer }>(
    "SELECT entry FROM clog WHERE tenant_id = $1 AND type = $2 ORDER BY idx",
    [tenant, type],
  );
  return rows.map(({ entry }) => JSON.parse(entry.toString()) as Entry);
}

async function setEndpoints(state: string): Promise<void> {
  await made.current.sql.query(
    "UPDATE endpoints SET state = $1, verification_state = 'RUNNING', verification_requested_at = now() WHERE id = ANY ($2)",
    [state, [mine.endpoint, others.endpoint]],
  );
}

let mine: Group;
let others: Group;

beforeAll(async () => {
  mine = await publishGroup(2);
  others = await publishGroup(2);
  // First attempts wait in their list until the endpoints are verified.
  await setEndpoints("PENDING");
  await made.current.startWorker();
});

afterAll(async () => {
  await Promise.all([mine, others].map(async ({ receiver }) => await receiver.close()));
});

describe("a list of several tenants", () => {
  test("takes no request that names no delivery, is found under no endpoint or tenant, and says so", async () => {
    const world = made.current;
    const handle = await world.workflowOf(mine.tenant, mine.ids[0] ?? "");
    const { typedSearchAttributes } = await handle.describe();
    const names = typedSearchAttributes.getAll().map(({ key }) => key.name);
    expect(names).toContain("SignetDelivery");
    expect(names).not.toContain("SignetEndpoint");
    expect(names).not.toContain("SignetTenant");

    await signalByCli(world, handle.workflowId, "cancel", "--input", '{"by":"ada"}');
    for (const update of [replayUpdate, cancelUpdate, attemptNowUpdate]) {
      await expect(handle.executeUpdate(update, { args: [{}] })).rejects.toThrow(WorkflowUpdateFailedError);
    }
    expect(await detailsOf(world, handle.workflowId)).toMatch(
      /Last request: cancel by ada was refused: the deliveries belong to several endpoints: give delivery_ids/,
    );
    // The commands to paste name one of them.
    const details = await detailsOf(world, handle.workflowId);
    expect(details).toContain("for several endpoints: 4 not attempted yet.");
    const [, code = ""] = /```sh\n([\s\S]*?)\n```/.exec(details) ?? [];
    const command = code.split(/\n(?=temporal )/).find((line) => line.includes("--name cancel")) ?? "exit 1";
    const [cancelled = ""] = /dlv_\w+/.exec(command) ?? [];
    await paste(world.config.temporalAddress, command);
    const all = [mine, others].flatMap(({ tenant, ids }) => ids.map((id) => [tenant, id] as const));
    const stateOf = async (wanted: string, cancelledOnly: boolean): Promise<void> => {
      for (const [tenant, id] of all.filter(([, each]) => (each === cancelled) === cancelledOnly)) {
        await world.untilDelivery(tenant, id, ({ state }) => state === wanted);
      }
    };
    await stateOf("CANCELLED", true);
    // The button of Temporal's UI hands the others back.
    await handle.cancel();
    expect(await handle.result()).toMatchObject({ cancelled: 1, moved: 3 });
    await setEndpoints("ACTIVE");
    await stateOf("DEAD_LETTERED", false);
    await stateOf("CANCELLED", true);
  });
});

describe("a request", () => {
  async function makeLetters(count: number): Promise<Group & { readonly carrier: string }> {
    const group = await publishGroup(count);
    const carriers = new Set<string>();
    for (const id of group.ids) {
      const dead = ({ state }: { state: string }): boolean => state === "DEAD_LETTERED";
      carriers.add((await made.current.untilDelivery(group.tenant, id, dead)).workflow_id ?? "");
    }
    const [carrier = ""] = carriers;
    const handle = made.current.temporal.workflow.getHandle(carrier);
    await eventually(async () => {
      const { workflowExecutionInfo: info } = (await handle.describe()).raw;
      return info?.firstRunId !== info?.execution?.runId;
    }, "the quiet run");
    return { ...group, carrier };
  }

  test("as an Update is answered for each delivery, and logged with who asked and why", async () => {
    const world = made.current;
    const { tenant, receiver, ids, carrier } = await makeLetters(1);
    const [id = ""] = ids;
    const handle = world.temporal.workflow.getHandle(carrier);
    const request = (input: MemberSignal) => ({ args: [input] as [MemberSignal] });
    const refusedAs = async (reason: string): Promise<void> => {
      const answer = await handle.executeUpdate(replayUpdate, request({ by: "ada" }));
      expect(answer).toEqual({ changed: [], refused: [{ id, reason }] });
      expect(await detailsOf(world, carrier)).toContain(
        `Last request: replay by ada: 0 of 1 delivery changed; refused: ${id} \`${reason}\`.`,
      );
    };
    await setTenantHold(world.sql, tenant, new Date());
    await refusedAs("tenant_held");
    await setTenantHold(world.sql, tenant, null);
    expect(await handle.executeUpdate(attemptNowUpdate, request({}))).toEqual({
      changed: [],
      refused: [{ id, reason: "in_queue" }],
    });
    expect(await handle.executeUpdate(replayUpdate, request({ delivery_ids: [] }))).toEqual({
      changed: [],
      refused: [],
    });
    for (const [input, why] of [
      [{ delivery_id: id }, "unknown member of the input: delivery_id"],
      [{ delivery_ids: id }, "delivery_ids must be a list of ids"],
      [{ delivery_ids: [id, "dlv_x"] }, "this workflow does not carry dlv_x"],
      ["all", "the input must be a JSON object"],
    ] as const) {
      const refused = handle.executeUpdate(replayUpdate, request(input as MemberSignal));
      await expect(refused).rejects.toMatchObject({ cause: { message: why } });
    }
    expect(await entriesOf(tenant, "dlq.replayed")).toEqual([]);

    receiver.answer([{ kind: "answer" }]);
    const answer = await handle.executeUpdate(replayUpdate, request({ by: "ada", reason: "fixed" }));
    expect(answer).toEqual({ changed: [id], refused: [] });
    await world.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
    expect(await entriesOf(tenant, "dlq.replayed")).toMatchObject([
      {
        actor: "operator:temporal",
        target: id,
        reason: "fixed",
        details: { by: "ada", workflow_id: carrier },
      },
    ]);
    const summaries = (await fetchRuns(world, carrier)).flatMap(summariesOf);
    expect(summaries).toContain("ACTIVITY_TASK_SCHEDULED: replay of 1 delivery");
    await receiver.close();
  });

  test("as a signal that changes nothing is shown, whatever its words are", async () => {
    const world = made.current;
    const { tenant, receiver, ids, carrier } = await makeLetters(1);
    for (const [name, input, shown] of [
      ["Replay", "{}", 'the signal "Replay" is unknown: replay, attemptNow and cancel are.'],
      [
        "replay",
        '{"by":"ada","ticket":"7"}',
        "replay by ada was refused: unknown member of the input: ticket.",
      ],
      ["replay", '"all"', "replay was refused: the input must be a JSON object."],
      ["replay", '{"delivery_ids":["dlv_x"]}', "0 of 1 delivery changed; refused: dlv_x `not_carried`."],
      ["attemptNow", '{"by":"`a`[b](http://c)"}', "attemptNow by a  b  http://c"],
    ] as const) {
      await signalByCli(world, carrier, name, "--input", input);
      expect(await detailsOf(world, carrier)).toContain(shown);
    }
    expect(await world.deliveries.find(tenant, ids[0] ?? "")).toMatchObject({
      state: "DEAD_LETTERED",
      cycle: 1,
    });
    await receiver.close();
  });

  test("by the document's command prints what became of it", async () => {
    const world = made.current;
    const { tenant, receiver, ids, carrier } = await makeLetters(1);
    const [id = ""] = ids;
    const block = labelledBlocks(readFileSync("docs/temporal.md", "utf8")).get("update") ?? "exit 1";
    const lines = block
      .replace("--workflow-id dlv_…", `--workflow-id ${carrier}`)
      .replace("--namespace signet", `--namespace ${world.config.temporalNamespace}`);
    const printed = await paste(world.config.temporalAddress, `${lines.trimEnd()} --output json`);
    expect(JSON.parse(printed)).toMatchObject({ result: { changed: [id], refused: [] } });
    expect(await entriesOf(tenant, "dlq.replayed")).toMatchObject([{ target: id, details: { by: "ada" } }]);
    await receiver.close();
  });
});

describe("a delivery that waits for its next attempt", () => {
  let tenant: string;
  let id: string;
  let handle: WorkflowHandle;
  let worker: WorkerProcess;
  let receiver: Receiver;

  beforeAll(async () => {
    worker = await slow.current.startWorker();
  });

  beforeEach(async () => {
    const world = slow.current;
    receiver = await startReceiver({ script: [FAILURE] });
    tenant = await world.createTenant();
    await world.createEndpoint(tenant, receiver.url);
    id = (await world.publish(tenant)).deliveries[0]?.id ?? "";
    handle = await world.workflowOf(tenant, id);
  });

  afterEach(async () => await receiver.close());

  test("is cancelled by Request Cancellation, with an entry", async () => {
    await handle.cancel();
    await slow.current.untilDelivery(tenant, id, ({ state }) => state === "CANCELLED");
    expect(await handle.result()).toMatchObject({ cancelled: 1 });
    expect(await entriesOf(tenant, "delivery.cancelled", slow.current)).toMatchObject([
      { target: id, details: { by: "Request Cancellation" } },
    ]);
  });

  test("is attempted now, with an entry if an operator asks", async () => {
    const args = [{ by: "ada", delivery_ids: [id] }] as [MemberSignal];
    expect(await handle.executeUpdate(attemptNowUpdate, { args })).toEqual({ changed: [id], refused: [] });
    expect(await entriesOf(tenant, "delivery.hastened", slow.current)).toMatchObject([
      { target: id, details: { by: "ada" } },
    ]);
  });

  test("is attempted before further requests are handled", async () => {
    await worker.close();
    for (let count = 0; count < 5; count += 1) {
      await handle.signal(attemptNowSignal, { by: "ada" });
    }
    worker = await slow.current.startWorker();
    await slow.current.untilDelivery(tenant, id, ({ attempt_count: attemptCount }) => attemptCount >= 2);
    const summaries = (await fetchRuns(slow.current, id)).flatMap(summariesOf);
    const activities = summaries.filter((summary) => summary.startsWith("ACTIVITY_TASK_SCHEDULED: "));
    const asked = activities.indexOf("ACTIVITY_TASK_SCHEDULED: attempt now of 1 delivery");
    expect(activities.slice(asked, asked + 2)).toEqual([
      "ACTIVITY_TASK_SCHEDULED: attempt now of 1 delivery",
      "ACTIVITY_TASK_SCHEDULED: attempt 2 of 17",
    ]);
  });

  test("has the requests that a run has left to the next", async () => {
    const { sql, temporal } = slow.current;
    await handle.terminate("continued by hand");
    const workflowId = `bat_${id.slice("dlv_".length)}`;
    const { rows } = await sql.query<{ epoch: number }>(
      `UPDATE deliveries SET state = 'DEAD_LETTERED', carrier = $2, dead_lettered_at = now(),
        expires_at = now() + interval '1 day' WHERE id = $1 RETURNING epoch`,
      [id, workflowId],
    );
    const input: DeadLetterInput = {
      v: 1,
      letters: [[id, rows[0]?.epoch ?? 0, 1, Date.now() + 86_400_000]],
      dead_letter_ms: 86_400_000,
      requests: [{ kind: "cancel", input: { delivery_ids: [id], by: "ada" } }],
    };
    const { deliveries: taskQueue } = TASK_QUEUES;
    const continued = await temporal.workflow.start("deadLetter", { workflowId, taskQueue, args: [input] });
    expect(await continued.result()).toMatchObject({ cancelled: 1 });
    expect(await slow.current.deliveries.find(tenant, id)).toMatchObject({ state: "CANCELLED" });
  });
});
