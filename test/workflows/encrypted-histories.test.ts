/** Workflows whose payloads 0.3.0 encrypted. */
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { createDataConverter } from "#temporal/codec.ts";
import { createLazyClient } from "#temporal/client.ts";
import { TASK_QUEUES } from "#workflows/messages.ts";
import { useTestApi } from "../support/api.ts";
import { eventually } from "../support/eventually.ts";
import { testKeyring } from "../support/keyring.ts";
import { temporalOptionsOf } from "../support/temporal-connection.ts";

interface Payload {
  readonly metadata: Readonly<Record<string, string>>;
  readonly data: string;
}

interface Started {
  readonly workflowExecutionStartedEventAttributes: { readonly input: { readonly payloads: Payload[] } };
}

/** The key-encryption key of the recorded history. */
const EARLIER_KEK = Buffer.alloc(32, 7);
const HISTORY = new URL("../replay/histories/encrypted/deliver-dead-letter-replayed.json", import.meta.url);
const api = useTestApi({
  worker: true,
  environment: { SIGNET_KEK_PREVIOUS: EARLIER_KEK.toString("base64") },
});

const decoded = ({ metadata, data }: Payload) => ({
  metadata: Object.fromEntries(
    Object.entries(metadata).map(([name, value]) => [name, Buffer.from(value, "base64")]),
  ),
  data: Buffer.from(data, "base64"),
});

test("a worker carries on a workflow with encrypted input, and leaves nothing that is encrypted", async () => {
  const { events } = JSON.parse(await readFile(HISTORY, "utf8")) as { readonly events: [Started] };
  const { payloads } = events[0].workflowExecutionStartedEventAttributes.input;
  const client = createLazyClient(
    temporalOptionsOf(api.environment),
    createDataConverter(testKeyring(EARLIER_KEK)),
  );
  const workflowId = "dlv_encrypted";
  await client.workflowService.startWorkflowExecution({
    namespace: client.options.namespace,
    workflowId,
    workflowType: { name: "deliver" },
    taskQueue: { name: TASK_QUEUES.deliveries },
    requestId: randomUUID(),
    input: { payloads: payloads.map(decoded) },
  });
  const handle = client.workflow.getHandle(workflowId);
  await eventually(async () => (await handle.describe()).status.name !== "RUNNING", "the workflow's end");
  const { events: written } = await handle.fetchHistory();
  expect(JSON.stringify(written).match(/"signet-key"/g)).toHaveLength(payloads.length);
  await client.connection.close();
});
