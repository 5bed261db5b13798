/**
 * Worker Versioning: a fleet of two versions, of which Temporal's current one runs the workflows. An operator changes
 * versions by the commands of docs/operations.md.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { WorkerProcess } from "#processes/worker.ts";
import { createLogger } from "#observability/logger.ts";
import { eventually } from "../support/eventually.ts";
import { fetchRuns, type HistoryEvent } from "../support/histories.ts";
import { startTestWorker } from "../support/in-process-worker.ts";
import { shellLines } from "../support/documents.ts";
import { allowMinutes } from "../support/limits.ts";
import { startReceiver } from "../support/receiver-server.ts";
import { paste, signalByCli, temporalCli, untilTaken } from "../support/temporal-cli.ts";
import { useWorld } from "../support/world.ts";

// Each of its many commands starts a process.
allowMinutes(3);

const DEPLOYMENT = "signet-test";
/** temporal.api.enums.v1.RoutingConfigUpdateState. */
const IN_PROGRESS = 1;
/** Task queues by kind of task, workflow or activity. */
const TASK_QUEUE_KINDS = 6;
const world = useWorld({
  // Retries come when the test asks for them.
  retryWindowMs: 3_600_000,
  environment: { SIGNET_WORKER_DEPLOYMENT: DEPLOYMENT },
});
const workers = new Map<string, WorkerProcess>();

async function startVersion(workerBuildId: string): Promise<void> {
  const config = { ...world.current.config, workerBuildId };
  workers.set(workerBuildId, await startTestWorker({ config, log: createLogger({ level: "error" }) }));
}

async function stopVersion(buildId: string): Promise<void> {
  await workers.get(buildId)?.close();
  workers.delete(buildId);
}

async function deployment(command: string, ...args: readonly string[]): Promise<string> {
  const line = ["worker", "deployment", command, ...args];
  return await untilTaken(async () => await temporalCli(world.current, ...line));
}

/** Versions in the document, by those of the test. */
const DOCUMENTED = { one: "0.3.0", two: "0.4.0" } as const;

/** Runs the one command of docs/operations.md that has all these words, for this namespace, with all of the ramp. */
async function asDocumented(...words: readonly string[]): Promise<void> {
  const lines = (await shellLines("docs/operations.md")).map(({ text }) => text);
  const found = lines.filter(
    (line) =>
      line.startsWith("temporal worker deployment ") && words.every((word) => line.includes(` ${word}`)),
  );
  expect(found).toHaveLength(1);
  const line = (found[0] ?? "")
    .replace("--namespace signet", `--namespace ${world.current.config.temporalNamespace}`)
    .replace("name signet", `name ${DEPLOYMENT}`)
    .replace(DOCUMENTED.one, "one")
    .replace(DOCUMENTED.two, "two")
    .replace("--percentage 10", "--percentage 100");
  await untilTaken(async () => await paste(world.current.config.temporalAddress, `${line} --yes`));
  await untilRouted();
}

/** Waits until every task queue knows where tasks go. Newer servers tell them after their answer. */
async function untilRouted(): Promise<void> {
  const { workflowService, options } = world.current.temporal;
  const asked = { namespace: options.namespace, deploymentName: DEPLOYMENT };
  await eventually(async () => {
    const { workerDeploymentInfo } = await workflowService.describeWorkerDeployment(asked);
    return Number(workerDeploymentInfo?.routingConfigUpdateState) !== IN_PROGRESS;
  }, "the routing at every task queue");
}

const version = (buildId: string): string[] => ["--deployment-name", DEPLOYMENT, "--build-id", buildId];

interface Routing {
  readonly routingConfig: {
    readonly currentVersionBuildID?: string;
    readonly rampingVersionBuildID?: string;
    readonly rampingVersionPercentage?: number;
  };
  readonly versionSummaries: readonly { readonly BuildID: string }[];
}

async function describeDeployment(): Promise<Routing> {
  return JSON.parse(await deployment("describe", "--name", DEPLOYMENT, "--output", "json")) as Routing;
}

/** Waits until Temporal knows the version with all its task queues. */
async function untilKnown(buildId: string): Promise<void> {
  await eventually(async () => {
    const shown = await deployment("describe-version", ...version(buildId), "--output", "json").catch(
      () => "{}",
    );
    return (
      (shown.match(/signet-(?:deliveries|deliveries-slow|verification|control)"/g) ?? []).length >=
      TASK_QUEUE_KINDS
    );
  }, `version ${buildId}`);
}

interface TaskCompleted {
  readonly deploymentVersion?: { readonly buildId?: string };
  readonly versioningBehavior?: string;
}

/** Versions that completed the workflow's tasks, in order. */
async function versionsOf(workflowId: string): Promise<(TaskCompleted | undefined)[]> {
  const runs = await fetchRuns(world.current, workflowId);
  return runs
    .flatMap(({ events }) => events)
    .filter(({ eventType }: HistoryEvent) => eventType === "EVENT_TYPE_WORKFLOW_TASK_COMPLETED")
    .map((event) => event["workflowTaskCompletedEventAttributes"] as TaskCompleted);
}

beforeAll(async () => {
  await startVersion("one");
  await untilKnown("one");
});

afterAll(async () => {
  await Promise.all([...workers.keys()].map(stopVersion));
});

test("a running workflow moves to the current version, in a ramp, and back", async () => {
  const { current } = world;
  await asDocumented("set-current-version", DOCUMENTED.one);
  const failure = { kind: "answer", status: 500, headers: { "retry-after": "3600" } } as const;
  const receiver = await startReceiver({ script: [failure] });
  const tenant = await current.createTenant();
  await current.createEndpoint(tenant, receiver.url);
  const { deliveries } = await current.publish(tenant);
  const id = deliveries[0]?.id ?? "";
  const { workflowId } = await current.workflowOf(tenant, id);
  let attempts = 1;
  await current.untilDelivery(tenant, id, ({ attempt_count: attemptCount }) => attemptCount === attempts);

  /** Has the workflow make an attempt. Returns the version that its tasks then ran on. */
  const attemptOn = async (expected: string): Promise<void> => {
    attempts += 1;
    await signalByCli(current, workflowId, "attemptNow");
    await current.untilDelivery(tenant, id, ({ attempt_count: attemptCount }) => attemptCount >= attempts);
    await eventually(async () => {
      const last = (await versionsOf(workflowId)).at(-1);
      return last?.deploymentVersion?.buildId === expected;
    }, `a task on version ${expected}`);
  };

  await attemptOn("one");
  expect(await versionsOf(workflowId)).toSatisfy((tasks: TaskCompleted[]) =>
    tasks.every(({ versioningBehavior }) => versioningBehavior === "VERSIONING_BEHAVIOR_AUTO_UPGRADE"),
  );

  // The next version takes all of the ramp, then none.
  await startVersion("two");
  await untilKnown("two");
  await attemptOn("one");
  // Either worker claims them and starts their workflows; only the current version runs them.
  const started = await Promise.all(
    Array.from({ length: 8 }, async () => {
      const published = await current.publish(tenant);
      const handle = await current.workflowOf(tenant, published.deliveries[0]?.id ?? "");
      return await eventually(async () => {
        const tasks = await versionsOf(handle.workflowId);
        return tasks.length > 0 ? tasks : undefined;
      }, "a task of the workflow");
    }),
  );
  expect(started.flat().map((task) => task?.deploymentVersion?.buildId)).toEqual(
    started.flat().map(() => "one"),
  );
  await asDocumented("set-ramping-version", DOCUMENTED.two, "--percentage");
  expect((await describeDeployment()).routingConfig).toMatchObject({
    currentVersionBuildID: "one",
    rampingVersionBuildID: "two",
    rampingVersionPercentage: 100,
  });
  await attemptOn("two");
  await asDocumented("set-ramping-version", DOCUMENTED.two, "--delete");
  await attemptOn("one");

  // It becomes current, and the first version ends.
  await asDocumented("set-current-version", DOCUMENTED.two);
  await attemptOn("two");
  await stopVersion("one");
  await attemptOn("two");

  // The way back.
  await startVersion("one");
  await asDocumented("set-current-version", DOCUMENTED.one);
  await attemptOn("one");
  await stopVersion("two");
  const routing = await describeDeployment();
  expect(routing.routingConfig.currentVersionBuildID).toBe("one");
  expect(routing.versionSummaries.map(({ BuildID }) => BuildID).sort()).toEqual(["one", "two"]);

  // Off again: workers without a version take over.
  const config = { ...current.config, workerDeployment: undefined };
  workers.set("none", await startTestWorker({ config, log: createLogger({ level: "error" }) }));
  await asDocumented("set-current-version", "--unversioned");
  await stopVersion("one");
  receiver.answer([{ kind: "answer" }]);
  await signalByCli(current, workflowId, "attemptNow");
  await current.untilDelivery(tenant, id, ({ attempt_count: attemptCount }) => attemptCount > attempts);
  await eventually(async () => {
    const last = (await versionsOf(workflowId)).at(-1);
    return last?.deploymentVersion === undefined || last.deploymentVersion === null;
  }, "a task without a version");
  await receiver.close();
});
