/**
 * The invariants of the hand-over at the insert (decision 42) under random faults: each delivery that is stored is sent
 * once, to the URL of its endpoint, not while its tenant is held. `SIGNET_TEST_SEED` and `SIGNET_TEST_SEEDS` choose.
 */
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, expect, test } from "vitest";
import type { Pool } from "#database/pool.ts";
import { setTenantHold } from "#database/repositories/tenants.ts";
import { metrics } from "#observability/metrics.ts";
import { eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { seededRandom } from "../support/seeded-random.ts";
import { makeWorld, type World } from "../support/world.ts";

allowMinutes(5);

const FIRST = Number(process.env["SIGNET_TEST_SEED"] ?? 1);
const SEEDS = Number(process.env["SIGNET_TEST_SEEDS"] ?? 3);
const STEPS = 60;
const SETTLED_WITHIN_MS = 90_000;

/** What happens to the next insert. */
type Fault = "fails" | "answer-lost" | "slow" | undefined;

interface Endpoint {
  readonly id: string;
  readonly type: string;
  /** The receivers of its URLs, in the order of the changes. */
  readonly urls: Receiver[];
}

/** A publish. It may have been refused, and stored nevertheless. */
interface Published {
  readonly number: number;
  readonly endpoint: Endpoint;
  /** How many URLs the endpoint had had. */
  readonly urls: number;
  /** Whether its tenant was held. */
  readonly held: boolean;
}

const receivers: Receiver[] = [];
afterAll(async () => {
  await Promise.all(receivers.map(async (receiver) => await receiver.close()));
});

async function openReceiver(): Promise<Receiver> {
  const receiver = await startReceiver();
  receivers.push(receiver);
  return receiver;
}

/** Returns the pool with the fault of the moment at its inserts of events. */
function faulty(pool: Pool, next: () => Fault): Pool {
  return new Proxy(pool, {
    get: (target, name, receiver) =>
      name === "query"
        ? async (query: { readonly name?: string }) => {
            const fault = query.name?.startsWith("insert-events") === true ? next() : undefined;
            if (fault === "fails") {
              throw new Error("the insert has failed");
            }
            if (fault === "slow") {
              await delay(1_200);
            }
            const result: unknown = await target.query(query as string);
            if (fault === "answer-lost") {
              throw new Error("the answer is lost");
            }
            return result;
          }
        : (Reflect.get(target, name, receiver) as unknown),
  });
}

class Run {
  readonly #world: World;
  readonly #random: () => number;
  readonly #published: Published[] = [];
  readonly #releases: number[] = [];
  #held = false;

  constructor(world: World, random: () => number) {
    this.#world = world;
    this.#random = random;
  }

  async step(
    tenant: string,
    endpoints: readonly Endpoint[],
    setFault: (fault: Fault) => void,
  ): Promise<void> {
    const draw = this.#random();
    const endpoint = endpoints[Math.floor(this.#random() * endpoints.length)];
    if (endpoint === undefined) {
      throw new Error("there is no endpoint");
    }
    if (this.#held ? draw < 0.3 : draw < 0.05) {
      await this.hold(tenant, !this.#held);
    } else if (draw < 0.12) {
      endpoint.urls.push(await openReceiver());
      await this.#world.sql.query("UPDATE endpoints SET url = $2 WHERE id = $1", [
        endpoint.id,
        endpoint.urls.at(-1)?.url,
      ]);
    } else if (draw < 0.2) {
      await delay(Math.floor(this.#random() * 1_500));
    } else {
      const faults: Fault[] = ["fails", "answer-lost", "slow"];
      setFault(draw < 0.4 ? faults[Math.floor(this.#random() * 3)] : undefined);
      const count = 1 + Math.floor(this.#random() * 6);
      await Promise.all(Array.from({ length: count }, async () => await this.#publish(tenant, endpoint)));
    }
  }

  async #publish(tenantId: string, endpoint: Endpoint): Promise<void> {
    const number = this.#published.length;
    this.#published.push({ number, endpoint, urls: endpoint.urls.length, held: this.#held });
    await this.#world.ingest
      .accept({
        tenantId,
        type: endpoint.type,
        data: JSON.stringify({ number }),
        sourceId: null,
        occurredAt: null,
        keys: [],
      })
      .catch(() => undefined);
  }

  async hold(tenant: string, held: boolean): Promise<void> {
    await setTenantHold(this.#world.sql, tenant, held ? new Date() : null);
    this.#held = held;
    if (!held) {
      this.#releases.push(Date.now());
    }
  }

  /** Returns what is wrong once nothing waits any more. */
  async faults(): Promise<string[]> {
    await eventually(
      async () => {
        const { rows } = await this.#world.sql.query<{ n: number }>(
          "SELECT count(*)::int AS n FROM deliveries WHERE state <> 'DELIVERED'",
        );
        const { rows: lists } = await this.#world.sql.query("SELECT FROM unstarted_lists");
        return rows[0]?.n === 0 && lists.length === 0;
      },
      "every delivery, and a workflow of each list",
      SETTLED_WITHIN_MS,
    );
    const { rows } = await this.#world.sql.query<{ n: number }>("SELECT count(*)::int AS n FROM deliveries");
    const wrong = this.#published.flatMap((published) => this.#faultsOf(published));
    const sent = this.#published.filter(({ number, endpoint }) => requestsFor(number, endpoint).length > 0);
    return sent.length === rows[0]?.n ? wrong : [...wrong, `${rows[0]?.n} are stored, ${sent.length} sent`];
  }

  #faultsOf({ number, endpoint, urls, held }: Published): string[] {
    const requests = requestsFor(number, endpoint);
    const early = requests.filter(({ url }) => url < urls - 1);
    const duringHold = requests.filter(({ at }) => held && !this.#releases.some((release) => release <= at));
    return [
      ...(requests.length > 1 ? [`${number} was sent ${requests.length} times`] : []),
      ...early.map(({ url }) => `${number} went to URL ${url} of ${urls}`),
      ...duringHold.map(() => `${number} was sent while its tenant was held`),
    ];
  }
}

function requestsFor(number: number, { urls }: Endpoint): { readonly url: number; readonly at: number }[] {
  return urls.flatMap(({ requests }, url) =>
    requests
      .filter(
        ({ rawBody }) =>
          (JSON.parse(rawBody.toString()) as { data: { number: number } }).data.number === number,
      )
      .map(({ receivedAt }) => ({ url, at: receivedAt })),
  );
}

async function handedOver(): Promise<number> {
  const { values } = await metrics.queued.get();
  return values.find(({ labels }) => labels["to"] === "sender")?.value ?? 0;
}

test.concurrent.each(Array.from({ length: SEEDS }, (_, index) => FIRST + index))(
  "seed %i: each stored delivery is sent once, where and when it may be",
  async (seed) => {
    const random = seededRandom(seed);
    let fault: Fault;
    const next = (): Fault => {
      const given = fault;
      fault = undefined;
      return given;
    };
    const world = await makeWorld({ handOver: { pool: (pool) => faulty(pool, next) } });
    try {
      await world.startWorker();
      const tenant = await world.createTenant();
      const endpoints = await Promise.all(
        ["a", "b", "c"].map(async (name): Promise<Endpoint> => {
          const [receiver, type] = [await openReceiver(), `order.${name}`];
          return {
            id: (await world.createEndpoint(tenant, receiver.url, [type])).id,
            type,
            urls: [receiver],
          };
        }),
      );
      const run = new Run(world, random);
      for (let step = 0; step < STEPS; step += 1) {
        await run.step(tenant, endpoints, (given) => (fault = given));
      }
      await run.hold(tenant, false);
      expect(await run.faults()).toEqual([]);
    } finally {
      await world.close();
    }
  },
);

test("many of them were handed over", async () => {
  expect(await handedOver()).toBeGreaterThan(SEEDS * 10);
});
