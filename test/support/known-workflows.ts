/**
 * Workflows without a worker, in every state that the saved views of docs/temporal.md select. The expected result of
 * each view is known.
 */
import type { Client, WorkflowStartOptions } from "@temporalio/client";
import { temporal } from "@temporalio/proto";
import { SEARCH_ATTRIBUTES } from "../../workflows/messages.ts";

/** Only {@link failNext} polls this queue. */
const QUEUE = "nobody";
const POLL_MS = 60_000;

interface Kept {
  readonly type: string;
  readonly id: string;
  readonly state?: string;
  readonly open?: number;
  readonly attempt?: number;
}

const attributes = ({ state, open, attempt }: Kept) => [
  ...(state === undefined ? [] : [{ key: SEARCH_ATTRIBUTES.state, value: state }]),
  ...(open === undefined ? [] : [{ key: SEARCH_ATTRIBUTES.open, value: open }]),
  ...(attempt === undefined ? [] : [{ key: SEARCH_ATTRIBUTES.attempt, value: attempt }]),
];

async function start(
  client: Client,
  kept: Kept,
  options: Partial<WorkflowStartOptions> & { readonly about?: string } = {},
): Promise<void> {
  const { about, ...rest } = options;
  await client.workflow.start(kept.type, {
    workflowId: kept.id,
    taskQueue: QUEUE,
    typedSearchAttributes: [
      ...attributes(kept),
      ...(about === undefined
        ? []
        : [
            { key: SEARCH_ATTRIBUTES.tenant, value: [`ten_${about}`, "ten_other"] },
            { key: SEARCH_ATTRIBUTES.endpoint, value: [`ep_${about}`, "ep_other"] },
            ...(kept.state === undefined
              ? []
              : [{ key: SEARCH_ATTRIBUTES.delivery, value: [`dlv_${about}`, "dlv_other"] }]),
          ]),
    ],
    ...rest,
  });
}

/** Fails the only workflow of a queue in its first task. */
async function failNext(client: Client, queue: string): Promise<void> {
  const { workflowService, options } = client;
  const task = await client.withDeadline(
    Date.now() + POLL_MS,
    async () =>
      await workflowService.pollWorkflowTaskQueue({
        namespace: options.namespace,
        taskQueue: { name: queue },
        identity: "test",
      }),
  );
  await workflowService.respondWorkflowTaskCompleted({
    taskToken: task.taskToken,
    namespace: options.namespace,
    commands: [
      {
        commandType: temporal.api.enums.v1.CommandType.COMMAND_TYPE_FAIL_WORKFLOW_EXECUTION,
        failWorkflowExecutionCommandAttributes: { failure: { message: "expired" } },
      },
    ],
  });
}

/** Starts the workflows. Resolves with the expected ids of each view. */
export async function startKnownWorkflows(
  client: Client,
): Promise<Readonly<Record<string, readonly string[]>>> {
  const deliver = "deliver";
  const dead = { state: "DEAD_LETTERED", open: 1, attempt: 17 };
  await start(client, { type: deliver, id: "dead", ...dead }, { about: "known" });
  await start(client, { type: deliver, id: "dead-list", ...dead, open: 40 });
  await start(client, { type: deliver, id: "retrying", state: "RETRYING", open: 2, attempt: 3 });
  await start(client, { type: deliver, id: "retrying-late", state: "RETRYING", open: 1, attempt: 13 });
  await start(client, { type: "verifyEndpoint", id: "verify" }, { about: "known" });
  await start(client, { type: "replayDeadLetters", id: "replay" });
  await start(client, { type: "replayDeliveries", id: "replay-deliveries" });
  await start(client, { type: deliver, id: "expired", ...dead }, { taskQueue: "failing" });
  await failNext(client, "failing");
  await start(client, { type: "purgeExpired", id: "purge" }, { workflowExecutionTimeout: "1 second" });
  await start(client, { type: "signCheckpoint", id: "sign" });
  await start(client, { type: deliver, id: "moved", ...dead });
  await client.workflow.getHandle("moved").terminate();
  return {
    "dead letters": ["dead", "dead-list"],
    "dead letters that expire within a day": ["dead", "dead-list"],
    retrying: ["retrying", "retrying-late"],
    "retrying for long": ["retrying-late"],
    "large lists": ["dead-list"],
    "one endpoint": ["dead", "verify"],
    "one tenant": ["dead", "verify"],
    "one delivery": ["dead"],
    "verifications under way": ["verify"],
    "replay jobs under way": ["replay", "replay-deliveries"],
    expired: ["expired"],
    "upkeep that failed": ["purge"],
  };
}
