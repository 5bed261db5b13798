/** Endpoint secrets rotate under load. Receivers know the old secret, the new one, or both. */
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import {
  accessToken,
  provisionTenant,
  requestJson,
  type Tenant,
  untilActive,
} from "../environment/provision.ts";
import type { Signet } from "../environment/signet.ts";
import { RUN_LENGTH } from "../load/event-id.ts";
import { monotonicMs } from "../load/monotonic.ts";
import { ACCEPTED } from "../load/publish-plan.ts";
import { VerifyingReceiver } from "../load/verifying-receiver.ts";
import type { Bench, Scenario } from "./bench.ts";
import { PAYLOAD_BYTES } from "./run.ts";

const PER_SECOND = 200;
const OVERLAP_SECONDS = 20;
const BEFORE_SECONDS = 5;
const AFTER_SECONDS = 5;
/** Wait after a rotation before a receiver drops the old secret, so that earlier deliveries have arrived. */
const GRACE_MS = 2_000;
const DRAIN_MS = 60_000;
const POLL_MS = 50;
const SECOND_MS = 1_000;
const KINDS = ["only-old", "only-new", "both"] as const;

interface RotatedEndpoint {
  readonly kind: (typeof KINDS)[number];
  readonly id: string;
  readonly receiver: VerifyingReceiver;
  readonly old: string;
}

const typeOf = (kind: RotatedEndpoint["kind"]): string => `bench.type_${KINDS.indexOf(kind)}`;

async function register(
  signet: Signet,
  token: string,
  kind: RotatedEndpoint["kind"],
): Promise<RotatedEndpoint> {
  const receiver = await VerifyingReceiver.open();
  const { id, secret } = await requestJson("POST", `${signet.apiUrl}/v1/webhooks/endpoints`, token, {
    url: receiver.url,
    events: [typeOf(kind)],
  });
  receiver.know([String(secret)]);
  return { kind, id: String(id), receiver, old: String(secret) };
}

/** Rotates, activates half an overlap later, and lets the overlap end. Each receiver learns only its kind of secret. */
async function rotateAll(
  signet: Signet,
  token: string,
  {
    endpoints,
    overlapSeconds,
  }: { readonly endpoints: readonly RotatedEndpoint[]; readonly overlapSeconds: number },
): Promise<void> {
  const call = async (
    id: string,
    what: string,
    body?: Record<string, unknown>,
  ): Promise<Record<string, unknown>> =>
    await requestJson("POST", `${signet.apiUrl}/v1/webhooks/endpoints/${id}/secret/${what}`, token, body);
  const rotated = await Promise.all(
    endpoints.map(async (endpoint) => {
      const { secret } = await call(endpoint.id, "rotate", { overlap_seconds: overlapSeconds });
      return { ...endpoint, next: String(secret) };
    }),
  );
  for (const { kind, receiver, old, next } of rotated) {
    receiver.know(kind === "only-old" ? [old] : [old, next]);
  }
  await delay(GRACE_MS);
  for (const { kind, receiver, next } of rotated) {
    if (kind === "only-new") {
      receiver.know([next]);
    }
  }
  await delay((overlapSeconds * SECOND_MS) / 2);
  await Promise.all(rotated.map(async ({ id }) => await call(id, "activate")));
  await delay(overlapSeconds * SECOND_MS - GRACE_MS);
  // The overlap is about to end, after which the old secret alone is not enough.
  for (const { receiver, next } of rotated) {
    receiver.know([next]);
  }
  await delay(GRACE_MS + AFTER_SECONDS * SECOND_MS);
}

async function publish(
  bench: Bench,
  signet: Signet,
  { tenant, seconds }: { readonly tenant: Tenant; readonly seconds: number },
): Promise<{ readonly events: number; readonly accepted: number }> {
  const { hostname: host, port } = new URL(signet.apiUrl);
  const events = PER_SECOND * seconds;
  const { status } = await bench.load.publish({
    host,
    ports: [Number(port)],
    run: randomBytes(RUN_LENGTH / 2).toString("hex"),
    from: 0,
    count: events,
    tokens: [await accessToken(signet, tenant)],
    types: KINDS.map(typeOf),
    payloadBytes: PAYLOAD_BYTES,
    pace: { kind: "open", perSecond: PER_SECOND },
  });
  return { events, accepted: status.filter((answer) => answer === ACCEPTED).length };
}

async function runScenario(bench: Bench): Promise<void> {
  const world = await bench.world({});
  const { signet, operatorToken } = world;
  const overlapSeconds = bench.seconds(OVERLAP_SECONDS);
  const seconds = BEFORE_SECONDS + 2 * overlapSeconds + AFTER_SECONDS;
  const tenant = await provisionTenant(signet, operatorToken, "rotation");
  const token = await accessToken(signet, tenant);
  const endpoints = await Promise.all(KINDS.map(async (kind) => await register(signet, token, kind)));
  try {
    await untilActive(signet, tenant, endpoints.length);
    const [{ events, accepted }] = await Promise.all([
      publish(bench, signet, { tenant, seconds }),
      delay(BEFORE_SECONDS * SECOND_MS).then(
        async () => await rotateAll(signet, token, { endpoints, overlapSeconds }),
      ),
    ]);
    const delivered = (): number => endpoints.reduce((sum, { receiver }) => sum + receiver.delivered, 0);
    for (const until = monotonicMs() + DRAIN_MS; delivered() < accepted && monotonicMs() < until;) {
      await delay(POLL_MS);
    }
    const found = {
      events_per_second: PER_SECOND,
      overlap_seconds: overlapSeconds,
      events,
      accepted,
      delivered: delivered(),
      lost: accepted - delivered(),
      failed: endpoints.reduce((sum, { receiver }) => sum + receiver.refused, 0),
      receivers: Object.fromEntries(endpoints.map(({ kind, receiver }) => [kind, receiver.counts])),
    };
    bench.findings["rotation"] = found;
    bench.log(`rotation: ${JSON.stringify(found)}`);
  } finally {
    await Promise.all(endpoints.map(async ({ receiver }) => await receiver.close()));
  }
}

export const rotation: Scenario = {
  name: "rotation",
  about: `${PER_SECOND} events per second through a rotation of every secret, to receivers that verify each delivery`,
  run: runScenario,
};
