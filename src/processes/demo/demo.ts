/**
 * The main flow, step by step, as a tenant and an operator would do it: token, verified endpoint, signed delivery,
 * failures, dead letter, replay. Everything goes through the public API, the operators' API and Temporal.
 */
import { setTimeout as delay } from "node:timers/promises";
import { type Client, WorkflowNotFoundError } from "@temporalio/client";
import { attemptNowSignal } from "#workflows/messages.ts";
import type { AdminCall } from "#cli/admin-client.ts";
import { ATTEMPT_MAX, RETRY_WINDOW_HOURS } from "#domain/retry-schedule.ts";
import type { Clock } from "#domain/clock.ts";
import type { StartScreen, Step } from "../serve/screen.ts";
import type { Fetch } from "#lib/client/runtime.ts";
import type { DemoReceiver } from "./demo-receiver.ts";
import { type DemoTenant, demoTenant } from "./demo-tenant.ts";
import { type EdgeAccess, tryEdge } from "./edge-demo.ts";
import type { Patience } from "./patient-fetch.ts";
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
  /** Waits while the started processes are late. */
  readonly fetch: Fetch;
  readonly patience: Patience;
  readonly home: string;
  readonly admin: AdminCall;
  /** The SPIFFE id of the tenant's certificate; absent without mutual TLS. */
  readonly sanUri?: string | undefined;
  readonly clock: Clock;
  readonly screen: Pick<StartScreen, "step">;
  /** Prints a line with details of a step. */
  readonly detail: (line: string) => void;
}

/** The demo's part that needs Temporal. */
export interface JobOptions extends DemoOptions {
  readonly temporal: Client;
  readonly receiver: DemoReceiver;
  /** Absent if the edge does not lead to the sample data plane. */
  readonly edge?: EdgeAccess | undefined;
}

/** The demo's tenant, signed in. */
export interface OpenDemo {
  readonly tenant: DemoTenant;
  readonly api: TenantApi;
}

export interface DemoResult {
  readonly tenant: DemoTenant;
  /** Signs in to the portal once; absent if the tenant of an earlier start may not. */
  readonly portalLink: string | undefined;
}

/** Shows a step while it runs, and its result. */
async function shown<T>(
  { screen }: Pick<DemoOptions, "screen">,
  name: string,
  run: (step: Step) => Promise<readonly [result: T, text: string]>,
): Promise<T> {
  const step = screen.step(name);
  const [result, text] = await run(step);
  step.done(text);
  return result;
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

async function showToken(options: DemoOptions, known: boolean, tenant: DemoTenant): Promise<TenantApi> {
  return await shown(options, "1 token", async () => {
    const api = await signIn(options, tenant);
    const claims = JSON.parse(Buffer.from(api.token.split(".")[1] ?? "", "base64url").toString()) as Json;
    const seconds = Number(claims["exp"]) - Number(claims["iat"]);
    const scope = String(claims["scope"]);
    options.detail(
      `tenant ${tenant.tenantId}, region ${String(claims["region"])}, client ${tenant.clientId}`,
    );
    options.detail(`JWT of ${api.token.length} bytes, scope ${scope}`);
    const whose = known ? "the demo tenant of an earlier start" : "a new demo tenant";
    return [api, `${seconds / 60} minutes, ${scope.split(" ").length} scopes, for ${whose}`];
  });
}

async function showEndpoint(options: JobOptions, api: TenantApi): Promise<string> {
  const { receiver, detail } = options;
  return await shown(options, "2 endpoint", async (step) => {
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
    step.update(`${String(endpoint["state"])}: a signed ping is on its way`);
    await until(
      async () => await api.call("GET", `/v1/webhooks/endpoints/${id}`),
      ({ state }) => state === "ACTIVE",
      "the endpoint's verification",
    );
    detail(`${id} sends to ${receiver.url}`);
    return [id, "answered a signed ping, so it is ACTIVE"];
  });
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

async function showDelivery(options: JobOptions, api: TenantApi, endpointId: string): Promise<void> {
  const { receiver, detail } = options;
  await shown(options, "3 delivery", async () => {
    const started = performance.now();
    const id = await publish(api, endpointId, { model: "signet-1", tokens: 42 });
    await untilState(api, id, "DELIVERED");
    const took = Math.round(performance.now() - started);
    const got = receiver.requests.find(({ deliveryId }) => deliveryId === id);
    if (got?.verified !== true) {
      throw new Error("the demo's receiver could not verify a signature");
    }
    detail(id);
    return [undefined, `signed, sent, verified and answered 200 in ${took} ms`];
  });
}

/** A delivery that fails in a list moves to another workflow, so the signal can be too late for its former one. */
async function bringForward({ temporal }: JobOptions, { workflow_id: workflow }: Json): Promise<void> {
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
async function showFailures(options: JobOptions, api: TenantApi, endpointId: string): Promise<string> {
  const { receiver, detail } = options;
  return await shown(options, "4 failures", async (step) => {
    receiver.answer = 500;
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
    detail(`${id}: attempt 1 failed, the next one is due ${String(first["next_attempt_at"])}`);
    for (let made = 1; made < ATTEMPT_MAX;) {
      step.update(`the receiver answers 500 now: attempt ${made} of ${ATTEMPT_MAX} failed`);
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
    detail(`signal attemptNow brought attempts 2 to ${ATTEMPT_MAX} forward`);
    return [
      id,
      `answered 500 to all ${ATTEMPT_MAX} attempts; a signal replaced the waits of ${RETRY_WINDOW_HOURS} hours`,
    ];
  });
}

async function showDeadLetter(options: JobOptions, api: TenantApi, id: string): Promise<void> {
  await shown(options, "5 dead letter", async () => {
    const dead = await untilState(api, id, "DEAD_LETTERED");
    const { data } = await api.call("GET", "/v1/webhooks/dlq");
    const entry = (data as readonly Json[]).find((candidate) => candidate["id"] === id);
    options.detail(`${id}: reason ${String(entry?.["reason"])}, kept until ${String(dead["expires_at"])}`);
    return [undefined, `kept until ${String(dead["expires_at"]).slice(0, 10)}`];
  });
}

async function showReplay(options: JobOptions, api: TenantApi, id: string): Promise<void> {
  await shown(options, "6 replay", async () => {
    options.receiver.answer = 200;
    await api.call("POST", `/v1/webhooks/dlq/${id}/replay`);
    const delivered = await untilState(api, id, "DELIVERED");
    const cycle = String(delivered["cycle"]);
    options.detail(`${id}: cycle ${cycle}, carried by ${String(delivered["workflow_id"])}`);
    return [undefined, `${String(delivered["state"])} in cycle ${cycle}`];
  });
}

/** Returns a link that signs in to the portal once; undefined if the tenant of an earlier start may not. */
export async function portalLink({ api }: Pick<OpenDemo, "api">): Promise<string | undefined> {
  try {
    const { url } = await api.call("POST", "/v1/portal/links", { expires_in_seconds: PORTAL_LINK_SECONDS });
    return String(url);
  } catch {
    // The tenant may be older than the portal.
    return undefined;
  }
}

/** Provisions the demo's tenant, or finds that of an earlier start, and signs in. It needs no Temporal. */
export async function openDemo(options: DemoOptions): Promise<OpenDemo> {
  const { tenant, known } = await demoTenant(options.home, options.admin, options.sanUri);
  return { tenant, api: await showToken(options, known, tenant) };
}

/** Runs the rest of the demo once. Throws if a step fails. */
export async function runDemo({ tenant }: OpenDemo, options: JobOptions): Promise<DemoResult> {
  const { edge } = options;
  // The first token may have expired while Temporal was built.
  const api = await signIn(options, tenant);
  const endpointId = await showEndpoint(options, api);
  await showDelivery(options, api, endpointId);
  const deliveryId = await showFailures(options, api, endpointId);
  await showDeadLetter(options, api, deliveryId);
  await showReplay(options, api, deliveryId);
  if (edge !== undefined) {
    await shown(options, "7 edge", async () => [undefined, await tryEdge(edge, tenant, options)]);
  }
  return { tenant, portalLink: await portalLink({ api }) };
}
