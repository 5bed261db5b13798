/** Every kind of delivery is accepted by unmodified standard packages for receivers. */
import { randomBytes } from "node:crypto";
import { Webhook as Standard } from "standardwebhooks";
import { Webhook as Svix } from "svix";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createPool, type Pool } from "#database/pool.ts";
import { tenantTransaction } from "#database/transaction.ts";
import { systemClock } from "#runtime/machine-timers.ts";
import { rotateSecret } from "#webhooks/endpoints/endpoint-secrets.ts";
import { createLogger } from "#observability/logger.ts";
import { eventually } from "../support/eventually.ts";
import { testKeyring } from "../support/keyring.ts";
import { type ReceivedRequest, startReceiver } from "../support/receiver-server.ts";
import { registrationOf } from "../support/registration.ts";
import { TEST_CALLER, useSharedWorld } from "../support/world.ts";

const made = useSharedWorld();
const TIMEOUT_MS = 300_000;
let pool: Pool;

beforeAll(() => {
  const log = createLogger({ level: "error" });
  pool = createPool({ url: made.current.config.databaseUrl, role: "signet_api", max: 2, log });
});

afterAll(async () => {
  await pool.end();
});

/** Also checks that a wrong secret is refused; otherwise acceptance would prove nothing. */
function expectAccepted(request: ReceivedRequest, secrets: readonly string[]): void {
  const headers = request.headers as Record<string, string>;
  const foreign = `whsec_${randomBytes(32).toString("base64")}`;
  const payload: unknown = JSON.parse(request.rawBody.toString());
  const body = request.rawBody.toString();
  for (const secret of secrets) {
    expect(new Standard(secret).verify(body, headers)).toEqual(payload);
    // Returns nothing, and throws on refusal.
    expect(() => new Svix(secret).verify(body, headers)).not.toThrow();
  }
  expect(() => new Standard(foreign).verify(body, headers)).toThrow("signature");
  expect(() => new Svix(foreign).verify(body, headers)).toThrow("signature");
}

const typeOf = ({ headers }: ReceivedRequest): unknown => headers["x-service-event-type"];
const attemptOf = ({ headers }: ReceivedRequest): unknown => headers["x-service-attempt"];

test(
  "standardwebhooks and svix accept pings, events, retries, replays, test events, rotations and platform events",
  async () => {
    const world = made.current;
    const { endpoints, deliveries } = world;
    let failing = false;
    const receiver = await startReceiver({
      script: (request) => ({
        kind: "answer",
        status: failing && typeOf(request) === "inference.completed" ? 500 : 200,
      }),
    });
    const tenantId = await world.createTenant();
    const { endpoint, secret } = await endpoints.register(
      tenantId,
      registrationOf(receiver.url, { event_types: ["inference.completed", "endpoint.disabled"] }),
      TEST_CALLER,
    );
    const { id } = endpoint;
    const secrets = [secret];
    let looked = 0;
    /** Waits for the next matching request; checks that it and all earlier ones are accepted. */
    const next = async (wanted: (request: ReceivedRequest) => boolean, what: string): Promise<void> => {
      const from = looked;
      await eventually(
        async () => (receiver.requests.slice(from).some(wanted) ? true : undefined),
        what,
        TIMEOUT_MS,
      );
      looked = receiver.requests.length;
      for (const request of receiver.requests.slice(from, looked)) {
        expectAccepted(request, secrets);
      }
    };

    await next((request) => typeOf(request) === "ping", "a ping");
    await eventually(
      async () => ((await endpoints.find(tenantId, id)).state === "ACTIVE" ? true : undefined),
      "the endpoint to be ACTIVE",
      TIMEOUT_MS,
    );
    await world.publish(tenantId, { amount: 1, name: "é" });
    await next((request) => typeOf(request) === "inference.completed", "an event");
    await endpoints.sendTest(tenantId, id, {});
    await next((request) => typeOf(request) === "endpoint.test", "a test event");

    failing = true;
    const { deliveries: published } = await world.publish(tenantId, {});
    const failed = published[0]?.id ?? "";
    await next((request) => attemptOf(request) === "2", "a retry");
    await world.untilDelivery(tenantId, failed, ({ state }) => state === "DEAD_LETTERED", TIMEOUT_MS);
    await next((request) => attemptOf(request) === "17", "the last attempt");
    failing = false;
    await deliveries.replay(tenantId, failed, TEST_CALLER);
    await next((request) => attemptOf(request) === "1", "a replay");

    const other = await world.createEndpoint(tenantId, receiver.url, ["other.type"]);
    await endpoints.disable(tenantId, other.id, TEST_CALLER);
    await next((request) => typeOf(request) === "endpoint.disabled", "a platform event");

    const services = {
      keyring: testKeyring(world.config.kek ?? Buffer.alloc(0)),
      clock: systemClock,
      randomBytes,
    };
    const { secret: nextSecret } = await tenantTransaction(
      pool,
      tenantId,
      async (db) =>
        await rotateSecret(db, { tenantId, id }, { overlapSeconds: 600 }, { by: TEST_CALLER, services }),
    );
    secrets.push(nextSecret);
    await world.publish(tenantId, {});
    await next((request) => typeOf(request) === "inference.completed", "an event during a rotation");
    await receiver.close();
  },
  TIMEOUT_MS * 2,
);
