/**
 * Records a history of each shape that a workflow can take. It is not a real test and runs only on request:
 *
 *   SIGNET_RECORD_HISTORIES=1 npx vitest run --project system test/replay/record.ts
 *
 * after a change of workflow code that old histories cannot know (behind `patched`), under new file names. The files that
 * exist are what the releases left, and are never written again. Those that end in `-described` were recorded when
 * activities and timers had got summaries.
 */
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { promisify } from "node:util";
import { afterEach, beforeAll, describe, inject, test } from "vitest";
import type { WorkerProcess } from "#processes/worker.ts";
import type { ReplayJobStatus } from "#activities/types.ts";
import {
  cancelReplaySignal,
  type DeliverInput,
  pauseSignal,
  type ReplayInput,
  replayStatusQuery,
  replayUpdate,
  replayWorkflowId,
  resumeSignal,
  TASK_QUEUES,
  WORKFLOW_TYPES,
} from "#workflows/messages.ts";
import { eventually } from "../support/eventually.ts";
import { type Behaviour, type Receiver, startReceiver } from "../support/receiver-server.ts";
import { seedDeadLetters } from "../support/seeded-letters.ts";
import { TEST_CALLER, useWorld, type World } from "../support/world.ts";

type Script = readonly Behaviour[];

const receivers: Receiver[] = [];

async function receiver(script: Script): Promise<Receiver> {
  const started = await startReceiver({ script });
  receivers.push(started);
  return started;
}

afterEach(async () => {
  await Promise.all(receivers.splice(0).map(async (started) => await started.close()));
});

/** Saves a history in operators' format, the JSON of `temporal workflow show`, on one line: nobody reads it. */
async function save(world: World, name: string, workflowId: string, runId?: string): Promise<void> {
  const { temporalAddress: address, temporalNamespace: namespace } = world.config;
  const server = ["--address", address, "--namespace", namespace];
  const run = runId === undefined ? [] : ["--run-id", runId];
  const { stdout } = await promisify(execFile)(
    inject("temporalBinary"),
    ["workflow", "show", "--output", "json", "--workflow-id", workflowId, ...run, ...server],
    { maxBuffer: 16_777_216 },
  );
  const text = `${JSON.stringify(JSON.parse(stdout))}\n`;
  await writeFile(new URL(`histories/${name}.json`, import.meta.url), text, { flag: "wx" });
}

async function closed(world: World, workflowId: string): Promise<void> {
  await eventually(
    async () => (await world.temporal.workflow.getHandle(workflowId).describe()).status.name !== "RUNNING",
    `${workflowId} to close`,
  );
}

async function saveClosed(world: World, name: string, workflowId: string): Promise<void> {
  await closed(world, workflowId);
  await save(world, name, workflowId);
}

async function publish(
  world: World,
  script: Script,
): Promise<{ tenant: string; id: string; target: Receiver }> {
  const target = await receiver(script);
  const tenant = await world.createTenant();
  await world.createEndpoint(tenant, target.url);
  const { deliveries } = await world.publish(tenant);
  return { tenant, id: deliveries[0]?.id ?? "", target };
}

const OK = { kind: "answer", status: 200 } as const;
const FAILED = { kind: "answer", status: 500 } as const;

describe("histories of deliver", () => {
  const made = useWorld();
  beforeAll(async () => {
    await made.current.startWorker();
  });

  test("delivered at once", async () => {
    const { id } = await publish(made.current, [OK]);
    await saveClosed(made.current, "deliver-at-once", id);
  });

  test("retried, then delivered", async () => {
    const { id } = await publish(made.current, [FAILED, FAILED, FAILED, OK]);
    await saveClosed(made.current, "deliver-retried", id);
  });

  test("17 failures, continued as new, replayed by signal", async () => {
    const world = made.current;
    const { tenant, id } = await publish(world, [FAILED]);
    await world.untilDelivery(tenant, id, ({ attempt_count: attemptCount }) => attemptCount === 1);
    const handle = world.temporal.workflow.getHandle(id);
    const { runId: first } = await handle.describe();
    const last = await eventually(async () => {
      const { runId } = await handle.describe();
      return runId === first ? undefined : runId;
    }, "the run of the quiet week");
    await handle.signal("replay", { by: "recording" });
    await closed(world, id);
    await save(world, "deliver-17-failures", id, first);
    await save(world, "deliver-dead-letter-replayed", id, last);
  });

  test("a receiver that asks to wait", async () => {
    const world = made.current;
    const asks: Behaviour = { kind: "answer", status: 503, headers: { "Retry-After": "3600" } };
    const { tenant, id } = await publish(world, [asks, OK]);
    await world.untilDelivery(tenant, id, ({ attempt_count: attemptCount }) => attemptCount === 1);
    await world.temporal.workflow.getHandle(id).signal("attemptNow", {});
    await saveClosed(world, "deliver-asked-to-wait", id);
  });

  test("a signal during the first attempt, attempt now, and cancel", async () => {
    const world = made.current;
    const { id, target } = await publish(world, [{ kind: "answer", status: 200, delayMs: 700 }]);
    await target.waitFor(1);
    await world.temporal.workflow.getHandle(id).signal("attemptNow", {});
    await saveClosed(world, "deliver-signal-during-attempt", id);
  });

  test("not answered within a second, then settled", async () => {
    const { id } = await publish(made.current, [{ kind: "answer", status: 200, delayMs: 1_600 }]);
    await saveClosed(made.current, "deliver-settled", id);
  });
});

describe.each([
  { type: "replayDeadLetters", prefix: "replay" },
  { type: "replayDeliveries", prefix: "replay-deliveries" },
] as const)("histories of $type", ({ type, prefix }) => {
  const made = useWorld();
  beforeAll(async () => {
    await made.current.startWorker();
  });

  /** Starts a job directly, so that its history is short. */
  async function start(count: number, rate: number, historyMax?: number): Promise<string> {
    const world = made.current;
    const tenant = await world.createTenant();
    const { id: endpointId } = await world.createEndpoint(tenant, "http://127.0.0.1:9/never");
    await seedDeadLetters(world.sql, { tenantId: tenant, endpointId, count });
    const states = type === "replayDeliveries" ? { states: ["DEAD_LETTERED"] as const } : {};
    const selection = { ...states, filter: {} };
    const job = await world.makeReplay(tenant, { selection, ratePerSecond: rate });
    const input: ReplayInput = {
      v: 1,
      job_id: job.id,
      rate_per_second: rate,
      status: { state: "RUNNING", total: count, done: 0, failed: 0, skipped: 0, position: 0 },
      ...(historyMax === undefined ? {} : { history_max: historyMax }),
    };
    const workflowId = replayWorkflowId(job.id);
    await world.temporal.workflow.start(WORKFLOW_TYPES[type], {
      workflowId,
      taskQueue: TASK_QUEUES.control,
      args: [input],
    });
    return workflowId;
  }

  async function untilStatus(
    workflowId: string,
    wanted: (status: ReplayJobStatus) => boolean,
  ): Promise<void> {
    await eventually(
      async () => wanted(await made.current.temporal.workflow.getHandle(workflowId).query(replayStatusQuery)),
      workflowId,
    );
  }

  test("to its end, continued as new", async () => {
    const workflowId = await start(30, 10, 12);
    const { runId } = await made.current.temporal.workflow.getHandle(workflowId).describe();
    await closed(made.current, workflowId);
    await save(made.current, `${prefix}-continued`, workflowId, runId);
    await save(made.current, `${prefix}-completed`, workflowId);
  });

  test("running, paused, and cancelled", async () => {
    const world = made.current;
    const workflowId = await start(400, 4);
    const handle = world.temporal.workflow.getHandle(workflowId);
    await untilStatus(workflowId, ({ done }) => done >= 8);
    await save(world, `${prefix}-running`, workflowId);
    await handle.signal(pauseSignal, { by: "recording" });
    await untilStatus(workflowId, ({ state }) => state === "PAUSED");
    await save(world, `${prefix}-paused`, workflowId);
    await handle.signal(resumeSignal);
    await untilStatus(workflowId, ({ state }) => state === "RUNNING");
    await handle.signal(cancelReplaySignal, { by: "recording" });
    await closed(world, workflowId);
    await save(world, `${prefix}-cancelled`, workflowId);
  });
});

describe("histories of upkeep", () => {
  const made = useWorld();
  beforeAll(async () => {
    await made.current.startWorker();
  });

  test("rotateSigningKeys", async () => {
    await made.current.temporal.workflow.execute("rotateSigningKeys", {
      workflowId: "rotate-recording",
      taskQueue: TASK_QUEUES.control,
    });
    await save(made.current, "rotate-signing-keys", "rotate-recording");
  });

  test("purgeExpired", async () => {
    await made.current.temporal.workflow.execute("purgeExpired", {
      workflowId: "purge-recording",
      taskQueue: TASK_QUEUES.control,
    });
    await save(made.current, "purge-expired", "purge-recording");
  });
});

describe("histories of deliver on the real schedule", () => {
  const made = useWorld({ retryWindowMs: 259_200_000 });
  let worker: WorkerProcess;
  beforeAll(async () => {
    worker = await made.current.startWorker();
  });

  test("many requests at once, between which attempts are made", async () => {
    const world = made.current;
    const { tenant, id } = await publish(world, [FAILED]);
    const handle = await world.workflowOf(tenant, id);
    await worker.close();
    for (const name of ["attemptNow", "attemptNow", "attemptNow", "attemptNow", "cancel"]) {
      await handle.signal(name, { by: "recording" });
    }
    worker = await world.startWorker();
    await saveClosed(world, "deliver-many-requests", id);
  });

  test("attempt now, then cancelled by signal", async () => {
    const world = made.current;
    const { tenant, id } = await publish(world, [FAILED]);
    const handle = await world.workflowOf(tenant, id);
    await handle.signal("attemptNow");
    await world.untilDelivery(tenant, id, ({ attempt_count: attemptCount }) => attemptCount === 2);
    await handle.signal("cancel", { delivery_ids: [id], by: "recording" });
    await saveClosed(world, "deliver-attempt-now-cancelled", id);
  });

  test("a mixed list of 64, of which half fail and leave for lists of their endpoints", async () => {
    const world = made.current;
    const [good, bad] = [await receiver([OK]), await receiver([FAILED])];
    const tenant = await world.createTenant();
    await world.createEndpoint(tenant, good.url, ["kind.good"]);
    await world.createEndpoint(tenant, bad.url, ["kind.bad"]);
    const ids = await Promise.all(
      Array.from({ length: 128 }, async (_, index) => {
        const { deliveries } = await world.publish(tenant, {}, index % 2 === 0 ? "kind.good" : "kind.bad");
        return deliveries[0]?.id ?? "";
      }),
    );
    const deliveries = async (): Promise<readonly { carrier: string; state: string; n: string }[]> => {
      const { rows } = await world.sql.query<{ carrier: string; state: string; n: string }>(
        "SELECT carrier, state, count(*) AS n FROM deliveries WHERE id = ANY ($1) AND carrier IS NOT NULL GROUP BY 1, 2 ORDER BY 3 DESC",
        [ids],
      );
      return rows;
    };
    const all = await eventually(async () => {
      const rows = await deliveries();
      const sum = rows.reduce((total, row) => total + Number(row.n), 0);
      return sum === 128 && rows.every((row) => row.state !== "QUEUED") ? rows : undefined;
    }, "every delivery in its list");
    const mixed = all.find((row) => row.state === "DELIVERED")?.carrier ?? "";
    const retrying = all.find((row) => row.state === "RETRYING")?.carrier ?? "";
    await saveClosed(world, "deliver-mixed-list", mixed);
    const list = world.temporal.workflow.getHandle(retrying);
    await list.signal("attemptNow");
    await list.signal("cancel");
    await saveClosed(world, "deliver-retrying-list", retrying);
    // The endpoint has failed, so later deliveries take the slow lane.
    const { deliveries: late } = await world.publish(tenant, {}, "kind.bad");
    const id = late[0]?.id ?? "";
    const { workflow_id: carrier } = await world.untilDelivery(
      tenant,
      id,
      ({ attempt_count: attemptCount }) => attemptCount === 1,
    );
    await world.temporal.workflow.getHandle(carrier ?? "").signal("cancel");
    await saveClosed(world, "deliver-slow-lane", carrier ?? "");
  });

  test("a list of an endpoint with a rate limit, whose members wait for their turns", async () => {
    const world = made.current;
    const target = await receiver([OK]);
    const tenant = await world.createTenant();
    const { id: endpoint } = await world.createEndpoint(tenant, target.url);
    await world.sql.query("UPDATE endpoints SET rate_limit = 4 WHERE id = $1", [endpoint]);
    await Promise.all(Array.from({ length: 64 }, async () => await world.publish(tenant)));
    const { rows } = await world.sql.query<{ carrier: string }>(
      "SELECT carrier FROM deliveries WHERE tenant_id = $1 GROUP BY 1 ORDER BY count(*) DESC LIMIT 1",
      [tenant],
    );
    const carrier = await eventually(() => rows[0]?.carrier, "the longest list");
    await saveClosed(world, "deliver-rate-limited", carrier);
  });
});

describe("histories of dead letters", () => {
  const made = useWorld();
  beforeAll(async () => {
    await made.current.startWorker();
  });

  test("17 failures, then a dead letter of its own type, replayed", async () => {
    const world = made.current;
    const { tenant, id } = await publish(world, [FAILED]);
    await world.untilDelivery(tenant, id, ({ attempt_count: attemptCount }) => attemptCount === 1);
    const handle = world.temporal.workflow.getHandle(id);
    const { runId: first } = await handle.describe();
    await eventually(
      async () => (await handle.describe()).type === WORKFLOW_TYPES.deadLetter,
      "its own type",
    );
    await handle.executeUpdate(replayUpdate, { args: [{ by: "recording" }] });
    await closed(world, id);
    await save(world, "deliver-becomes-dead-letter", id, first);
    await save(world, "dead-letter-replayed", id);
  });

  test("of a disabled endpoint, cancelled by Request Cancellation", async () => {
    const world = made.current;
    const target = await receiver([OK]);
    const tenant = await world.createTenant();
    const { id: endpoint } = await world.createEndpoint(tenant, target.url);
    await world.endpoints.disable(tenant, endpoint, TEST_CALLER);
    const id = (await world.publish(tenant)).deliveries[0]?.id ?? "";
    await (await world.workflowOf(tenant, id)).cancel();
    await saveClosed(world, "dead-letter-cancelled", id);
  });
});

describe("histories of deliver with a short week, and of verifyEndpoint", () => {
  const made = useWorld({ deadLetterMs: 1_500 });
  beforeAll(async () => {
    await made.current.startWorker();
  });

  test("expired", async () => {
    const world = made.current;
    const { id } = await publish(world, [FAILED]);
    await saveClosed(world, "deliver-expired", id);
  });

  test("verified at the second ping, superseded, exhausted", async () => {
    const world = made.current;
    const start = async (
      script: Script,
      offsets: readonly number[],
      { state = "PENDING", v = 1 } = {},
    ): Promise<string> => {
      const target = await receiver(script);
      const tenant = await world.createTenant();
      const { id } = await world.createEndpoint(tenant, target.url);
      await world.sql.query("UPDATE endpoints SET state = $2 WHERE id = $1", [id, state]);
      const workflowId = `verify/${id}/1`;
      await world.temporal.workflow.start("verifyEndpoint", {
        workflowId,
        taskQueue: v === 1 ? TASK_QUEUES.control : TASK_QUEUES.verification,
        args: [{ v, endpoint_id: id, generation: 1, offsets_ms: offsets }],
      });
      return workflowId;
    };
    const runs = {
      "verify-second-ping": await start([FAILED, OK], [0, 200, 400]),
      "verify-superseded": await start([OK], [0, 200], { state: "ACTIVE" }),
      "verify-exhausted": await start([FAILED], [0, 100, 200]),
      // The first ping is a local activity.
      "verify-first-ping-local": await start([FAILED, OK], [0, 200, 400], { v: 2 }),
    };
    for (const [name, workflowId] of Object.entries(runs)) {
      await closed(world, workflowId);
      await save(world, name, workflowId);
    }
  });

  test("continued from a row that a reconciler has reclaimed", async () => {
    const world = made.current;
    const target = await receiver([OK]);
    const tenant = await world.createTenant();
    await world.createEndpoint(tenant, target.url);
    const { deliveries } = await world.publish(tenant);
    const input: DeliverInput = {
      v: 1,
      members: [{ id: deliveries[0]?.id ?? "", epoch: 99 }],
      offsets_ms: [0, ...Array.from({ length: 16 }, (_, index) => (index + 1) * 10)],
      dead_letter_ms: 1_000,
      progress: { anchor_ms: Date.now(), members: [{ attempts: 3, phase: "RETRYING", due_ms: Date.now() }] },
    };
    await world.temporal.workflow.start("deliver", {
      workflowId: "bat_recording",
      taskQueue: TASK_QUEUES.deliveries,
      args: [input],
    });
    await saveClosed(world, "deliver-moved", "bat_recording");
  });
});

describe("histories of rotateCredentials", () => {
  const made = useWorld();

  test("one sweep", async () => {
    const world = made.current;
    await world.startWorker();
    const workflowId = "rotateCredentials/recording";
    await world.temporal.workflow.execute("rotateCredentials", {
      workflowId,
      taskQueue: TASK_QUEUES.control,
      args: [],
    });
    await save(world, "rotate-credentials", workflowId);
  });
});

describe("histories of signCheckpoint", () => {
  const made = useWorld();

  test("one checkpoint", async () => {
    const world = made.current;
    await world.startWorker();
    const workflowId = "signCheckpoint/recording";
    await world.temporal.workflow.execute("signCheckpoint", {
      workflowId,
      taskQueue: TASK_QUEUES.control,
      args: [],
    });
    await save(world, "sign-checkpoint", workflowId);
  });
});
