/** Changes of an endpoint's secret while requests are in flight, with a real worker and receiver. */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createPool, type Pool } from "#database/pool.ts";
import { tenantTransaction } from "#database/transaction.ts";
import { systemClock } from "#runtime/machine-timers.ts";
import { activateSecret, rotateSecret } from "#webhooks/endpoints/endpoint-secrets.ts";
import { createLogger } from "#observability/logger.ts";
import { verify } from "#lib/receiver/verify.ts";
import { testKeyring } from "../support/keyring.ts";
import { type ReceivedRequest, startReceiver } from "../support/receiver-server.ts";
import { TEST_CALLER, type TestEndpoint, useSharedWorld } from "../support/world.ts";

const made = useSharedWorld();
let pool: Pool;

beforeAll(() => {
  const { config } = made.current;
  pool = createPool({
    url: config.databaseUrl,
    role: "signet_api",
    max: 2,
    log: createLogger({ level: "error" }),
  });
});
afterAll(async () => {
  await pool.end();
});

const using = () => ({
  by: TEST_CALLER,
  services: {
    keyring: testKeyring(made.current.config.kek ?? Buffer.alloc(0)),
    clock: systemClock,
    randomBytes,
  },
});

async function rotate(place: TestEndpoint, overlapSeconds: number): Promise<string> {
  return await tenantTransaction(
    pool,
    place.tenantId,
    async (db) => (await rotateSecret(db, place, { overlapSeconds }, using())).secret,
  );
}

async function activate(place: TestEndpoint): Promise<void> {
  await tenantTransaction(pool, place.tenantId, async (db) => await activateSecret(db, place, using()));
}

/** Returns which of the secrets verify the request, and which made the specification's header. */
function goodFor(request: ReceivedRequest | undefined, secrets: readonly string[]): boolean[][] {
  const { headers = {}, rawBody = Buffer.alloc(0), receivedAt = 0 } = request ?? {};
  const first = Object.fromEntries(
    Object.entries(headers).filter(([name]) => !name.startsWith("webhook-") && !name.endsWith("-alt")),
  );
  return [headers, first].map((some) =>
    secrets.map((secret) => {
      try {
        verify({ rawBody, headers: some, secrets: [secret], now: receivedAt });
        return true;
      } catch {
        return false;
      }
    }),
  );
}

/** Runs `change` during a first attempt that then fails. Returns that attempt and the second one. */
async function around(
  endpoint: TestEndpoint,
  receiver: Awaited<ReturnType<typeof startReceiver>>,
  change: () => Promise<void>,
): Promise<readonly ReceivedRequest[]> {
  const world = made.current;
  const changed = Promise.withResolvers<void>();
  receiver.clear();
  receiver.answer([{ kind: "answer", status: 500, after: changed.promise }, { kind: "answer" }]);
  const [delivery] = (await world.publish(endpoint.tenantId)).deliveries;
  await receiver.waitFor(1);
  await change();
  changed.resolve();
  await world.untilDelivery(endpoint.tenantId, delivery?.id ?? "", ({ state }) => state === "DELIVERED");
  return await receiver.waitFor(2);
}

test("a request in flight keeps its signatures; the next attempt has the new ones", async () => {
  const world = made.current;
  const receiver = await startReceiver({});
  const endpoint = await world.createEndpoint(await world.createTenant(), receiver.url);
  const old = endpoint.secret;
  let next = "";
  const rotated = await around(endpoint, receiver, async () => {
    next = await rotate(endpoint, 3_600);
  });
  expect(goodFor(rotated[0], [old, next])).toEqual([
    [true, false],
    [true, false],
  ]);
  expect(goodFor(rotated[1], [old, next])).toEqual([
    [true, true],
    [true, false],
  ]);

  const activated = await around(endpoint, receiver, async () => await activate(endpoint));
  // Before and after the swap, either secret is enough.
  expect(goodFor(activated[0], [old, next])).toEqual([
    [true, true],
    [true, false],
  ]);
  expect(goodFor(activated[1], [old, next])).toEqual([
    [true, true],
    [false, true],
  ]);

  let fresh = "";
  const replaced = await around(endpoint, receiver, async () => {
    fresh = await rotate(endpoint, 0);
  });
  expect(goodFor(replaced[1], [old, next, fresh])).toEqual([
    [false, false, true],
    [false, false, true],
  ]);
  await receiver.close();
});
