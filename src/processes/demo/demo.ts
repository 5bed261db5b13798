/**
 * The main flow, step by step, as a tenant and an operator would do it: token, verified endpoint, signed delivery,
 * failures, dead letter, replay. Everything goes through the public API, the operators' API and Temporal.
 */
import { setTimeout as delay } from "node:timers/promises";
import { type Client, WorkflowNotFoundError } from "@temporalio/client";
import { attemptNowSignal } from "../../../workflows/messages.ts";
import type { AdminCall } from "../../cli/admin-client.ts";
import { ATTEMPT_MAX } from "../../domain/retry-schedule.ts";
import type { Clock } from "../../domain/clock.ts";
import type { DemoReceiver } from "./demo-receiver.ts";
import { type DemoTenant, demoTenant } from "./demo-tenant.ts";
import { type EdgeAccess, showEdge } from "./edge-demo.ts";
import { type Json, signIn, type TenantApi } from "./tenant-api.ts";

const TIMEOUT_MS = 30_000;
const ASK_AGAIN_MS = 25;
const SIGNAL_AGAIN_MS = 1_000;
/** The longest one possible. */
const PORTAL_LINK_SECONDS = 900;
const DESCRIPTION = "demo";
const EVENT_TYPE = "inference.completed";

export interface DemoOptions {
  readonly baseUrl: string;
  readonly home: string;
  readonly admin: AdminCall;
  readonly temporal: Client;
  readonly receiver: DemoReceiver;
  /** The SPIFFE id of the tenant's certificate; absent without mutual TLS. */
  readonly sanUri?: string | undefined;
  /** Absent if the edge does not lead to the sample data plane. */
  readonly edge?: EdgeAccess | undefined;
  readonly clock: Clock;
  /** One line for people. */
  readonly say: (line: string) => void;
}

export interface DemoResult {
  readonly tenant: DemoTenant;
  readonly endpointId: string;
  /** The delivery that became a dead letter and was replayed. */
  readonly deliveryId: string;
  /** Signs in to the portal once; absent if the tenant of an earlier start may not. */
  readonly portalLink: string | undefined;
}

async function until(
  ask: () => Promise<Json>,
  wanted: (answer: Json) => boolean,
  what: string,
  timeoutMs = TIMEOUT_MS,
): Promise<Json> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const answer = await ask();
    if (wanted(answer)) {
      return answer;
    }
    if (performance.now() > deadline) {
      throw new Error(`the demo waited ${timeoutMs / 1_000} s without success for ${what}`);
    }
    await delay(ASK_AGAIN_MS);
  }
}

async function showToken({ baseUrl, say }: DemoOptions, tenant: DemoTenant): Promise<TenantApi> {
  const api = await signIn(baseUrl, tenant);
  const claims = JSON.parse(Buffer.from(api.token.split(".")[1] ?? "", "base64url").toString()) as Json;
  say(
    `1  token      client ${tenant.clientId} → JWT of ${api.token.length} bytes, ${Number(claims["exp"]) - Number(claims["iat"])} s`,
  );
  say(`              tenant ${String(claims["tenant"])}, region ${String(claims["region"])}`);
  say(`              scope ${String(claims["scope"])}`);
  return api;
}

async function showEndpoint({ receiver, say }: DemoOptions, api: TenantApi): Promise<string> {
  const { data } = await api.call("GET", "/v1/webhooks/endpoints?limit=100");
  for (const old of data as readonly Json[]) {
    if (old["description"] === DESCRIPTION) {
      await api.call("DELETE", `/v1/webhooks/endpoints/${String(old["id"])}`);
    }
  }
  const endpoint = await api.call("POST", "/v1/webhooks/endpoints", {
    url: receiver.url,
    events: ["*"],
    description: DESCRIPTION,
    metadata: { from: "npm start" },
  });
  receiver.secrets.add(String(endpoint["secret"]));
  const id = String(endpoint["id"]);
  say(`2  endpoint   ${id} → ${receiver.url} is ${String(endpoint["state"])}: a signed ping is on its way`);
  const active = await until(
    async () => await api.call("GET", `/v1/webhooks/endpoints/${id}`),
    ({ state }) => state === "ACTIVE",
    "the endpoint's verification",
  );
  say(`              it answered 200, so it is ${String(active["state"])}`);
  return id;
}

/** Publishes an event and returns its delivery to the demo's endpoint; the tenant may have other endpoints. */
async function publish(api: TenantApi, endpointId: string, data: Json): Promise<string> {
  const event = await api.call("POST", "/v1/events", { type: EVENT_TYPE, data });
  const { data: deliveries } = await api.call(
    "GET",
    `/v1/webhooks/deliveries?event_id=${String(event["id"])}&endpoint_id=${endpointId}`,
  );
  const [delivery] = deliveries as readonly Json[];
  return String(delivery?.["id"]);
}

async function untilState(api: TenantApi, id: string, state: string): Promise<Json> {
  return await until(
    async () => await api.call("GET", `/v1/webhooks/deliveries/${id}`),
    (delivery) => delivery["state"] === state,
    `delivery ${id} to be ${state}`,
  );
}

async function showDelivery(
  { receiver, say }: DemoOptions,
  api: TenantApi,
  endpointId: string,
): Promise<void> {
  const started = performance.now();
  const id = await publish(api, endpointId, { model: "signet-1", tokens: 42 });
  await untilState(api, id, "DELIVERED");
  const took = Math.round(performance.now() - started);
  const got = receiver.requests.find(({ deliveryId }) => deliveryId === id);
  say(`3  delivery   ${id}: published, signed, sent and answered 200 in ${took} ms`);
  say(`              the receiver ${got?.verified === true ? "verified" : "COULD NOT VERIFY"} the signature`);
  if (got?.verified !== true) {
    throw new Error("the demo's receiver could not verify a signature");
  }
}

/** A delivery that fails in a list moves to another workflow, so the signal can be too late for its former one. */
async function bringForward({ temporal }: DemoOptions, { workflow_id: workflow }: Json): Promise<void> {
  if (typeof workflow !== "string") {
    return;
  }
  try {
    await temporal.workflow.getHandle(workflow).signal(attemptNowSignal);
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) {
      throw error;
    }
  }
}

/** The real schedule lasts 72 hours; an operator's signal brings each attempt forward. */
async function showDeadLetter(options: DemoOptions, api: TenantApi, endpointId: string): Promise<string> {
  const { receiver, say } = options;
  receiver.setAnswer(500);
  const id = await publish(api, endpointId, { model: "signet-1", tokens: 17 });
  const deadline = performance.now() + 2 * TIMEOUT_MS;
  const read = async (): Promise<Json> => await api.call("GET", `/v1/webhooks/deliveries/${id}`);
  const attempted = async (count: number, timeoutMs: number): Promise<Json> =>
    await until(
      read,
      (delivery) => Number(delivery["attempt_count"]) >= count,
      `attempt ${count} of ${id}`,
      timeoutMs,
    );
  const first = await until(
    read,
    ({ attempt_count: count, next_attempt_at: next }) => Number(count) > 0 && next !== null,
    `attempt 1 of ${id}`,
  );
  say(`4  failures   ${id}: the receiver answers 500 now; attempt 1 failed`);
  say(`              the next one is due ${String(first["next_attempt_at"])}, the 17th in 72 hours`);
  for (let made = 1; made < ATTEMPT_MAX;) {
    await bringForward(options, await read());
    // A signal during an attempt counts for that attempt.
    const delivery = await attempted(made + 1, SIGNAL_AGAIN_MS).catch(() => undefined);
    made = delivery === undefined ? made : Number(delivery["attempt_count"]);
    if (performance.now() > deadline) {
      throw new Error(
        `the demo waited ${TIMEOUT_MS / 1_000} s without success for attempt ${made + 1} of ${id}`,
      );
    }
  }
  say(`              signal attemptNow brought attempts 2 to ${ATTEMPT_MAX} forward`);
  const dead = await untilState(api, id, "DEAD_LETTERED");
  const { data } = await api.call("GET", "/v1/webhooks/dlq");
  const entry = (data as readonly Json[]).find((candidate) => candidate["id"] === id);
  say(`5  dead letter ${id}: reason ${String(entry?.["reason"])}, kept until ${String(dead["expires_at"])}`);
  return id;
}

async function showReplay({ receiver, say }: DemoOptions, api: TenantApi, id: string): Promise<void> {
  receiver.setAnswer(200);
  await api.call("POST", `/v1/webhooks/dlq/${id}/replay`);
  const delivered = await untilState(api, id, "DELIVERED");
  say(
    `6  replay     ${id}: ${String(delivered["state"])} in cycle ${String(delivered["cycle"])}, carried by ${String(delivered["workflow_id"])}`,
  );
}

/** The tenant may be older than the portal. */
async function portalLink(api: TenantApi): Promise<string | undefined> {
  try {
    const { url } = await api.call("POST", "/v1/portal/links", { expires_in_seconds: PORTAL_LINK_SECONDS });
    return String(url);
  } catch {
    return undefined;
  }
}

/** Runs the demo once. Throws if a step fails. */
export async function runDemo(options: DemoOptions): Promise<DemoResult> {
  const { tenant, known } = await demoTenant(options.home, options.admin, options.sanUri);
  options.say(
    known
      ? `   demo tenant ${tenant.tenantId} of an earlier start`
      : `   demo tenant ${tenant.tenantId} provisioned`,
  );
  const api = await showToken(options, tenant);
  const endpointId = await showEndpoint(options, api);
  await showDelivery(options, api, endpointId);
  const deliveryId = await showDeadLetter(options, api, endpointId);
  await showReplay(options, api, deliveryId);
  if (options.edge !== undefined) {
    await showEdge(options.edge, tenant, options);
  }
  return { tenant, endpointId, deliveryId, portalLink: await portalLink(api) };
}
