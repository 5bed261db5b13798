/**
 * All connections of the api, the worker and the edge to PostgreSQL or Temporal die without FIN or RST, while new ones
 * work, as after a fail-over behind a virtual address or a NAT timeout.
 */
import { expect, test } from "vitest";
import type { ProcessName } from "#observability/metrics.ts";
import { type Answer, readAnswer } from "#test/support/answer.ts";
import { eventually } from "#test/support/eventually.ts";
import { bearer, grant, provision } from "#test/support/factories.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { withoutPause } from "#test/support/pauses.ts";
import { type Receiver, startReceiver } from "#test/support/receiver-server.ts";
import { type ScrapedProcesses, startScrapedProcesses } from "#test/support/scraped-processes.ts";
import { useStarted } from "#test/support/started.ts";
import { startTcpProxy, type TcpProxy } from "#test/support/tcp-proxy.ts";
import { useWorld } from "#test/support/world.ts";

allowMinutes(5);

const TIMEOUT_MS = 240_000;
const PROCESSES: readonly ProcessName[] = ["api", "worker", "edge"];
const TYPE = "inference.completed";
/** The documented limits. */
const UNREADY_MAX_MS = 5_000;
const DELIVERY_MAX_MS = 15_000;
const LARGE = "x".repeat(100_000);
const FLOOD = 600;
const MEBIBYTE = 1_048_576;

interface Line {
  readonly postgres: TcpProxy;
  readonly temporal: TcpProxy;
  readonly processes: ScrapedProcesses;
  readonly receiver: Receiver;
  readonly token: string;
  close(): Promise<void>;
}

const world = useWorld();

async function admin(baseUrl: string, method: string, path: string, body?: unknown): Promise<Answer> {
  const headers = {
    authorization: `Bearer ${world.current.config.operatorToken ?? ""}`,
    "content-type": "application/json",
  };
  const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
  return await readAnswer(await fetch(`${baseUrl}${path}`, init));
}

async function openLine(): Promise<Line> {
  const { config } = world.current;
  const database = new URL(config.databaseUrl);
  const postgres = await startTcpProxy(Number(database.port));
  database.port = String(postgres.port);
  const temporal = await startTcpProxy(Number(config.temporalAddress.split(":")[1]));
  const processes = await startScrapedProcesses(world.current, {
    SIGNET_DATABASE_URL: database.href,
    TEMPORAL_ADDRESS: `127.0.0.1:${temporal.port}`,
  });
  const receiver = await startReceiver();
  const client = await provision(
    {
      admin: async (method, path, body) => await admin(processes.adminUrl, method, `/admin/v1${path}`, body),
    },
    { scopes: ["events:publish"] },
  );
  await world.current.createEndpoint(client.tenantId, receiver.url, [TYPE]);
  const issued = await readAnswer(
    await fetch(`${processes.apiUrl}/v1/auth/token`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(grant(client)),
    }),
  );
  return {
    postgres,
    temporal,
    processes,
    receiver,
    token: String(issued.body["access_token"]),
    close: async () => {
      await processes.close();
      await Promise.all([receiver.close(), postgres.close(), temporal.close()]);
    },
  };
}

const line = useStarted("the processes", openLine);

async function publish(data: unknown, at: "api" | "edge" = "api"): Promise<Answer> {
  const { processes, token } = line.current;
  return await readAnswer(
    await fetch(`${at === "api" ? processes.apiUrl : processes.edgeUrl}/v1/events`, {
      method: "POST",
      headers: { ...bearer(token), "content-type": "application/json" },
      body: JSON.stringify({ type: TYPE, data }),
    }),
  );
}

/** Publishes until an event is accepted and has arrived; both times in milliseconds from the call. */
async function untilDelivered(at: "api" | "edge"): Promise<{ acceptedMs: number; arrivedMs: number }> {
  const began = performance.now();
  const accepted = await eventually(async () => {
    const answer = await publish({ at }, at);
    if (answer.status >= 400 && answer.status < 500) {
      throw new Error(answer.text);
    }
    return answer.status === 202 ? answer : undefined;
  }, `an event to be accepted over the ${at}`);
  const acceptedMs = performance.now() - began;
  const { receiver } = line.current;
  await eventually(
    () => receiver.requests.some(({ rawBody }) => rawBody.includes(String(accepted.body["id"]))),
    "the event to arrive",
  );
  return { acceptedMs, arrivedMs: performance.now() - began };
}

/** Polls /readyz until the process is not ready; returns the time in milliseconds. */
async function untilNotReady(name: ProcessName): Promise<number> {
  const began = performance.now();
  const url = `http://${line.current.processes.metricsAddress(name)}/readyz`;
  await eventually(async () => (await fetch(url)).status === 503, `the ${name} to be not ready`);
  return performance.now() - began;
}

async function untilReady(): Promise<void> {
  for (const name of PROCESSES) {
    const url = `http://${line.current.processes.metricsAddress(name)}/readyz`;
    await eventually(async () => (await fetch(url)).ok, `the ${name} to be ready`);
  }
}

async function residentBytes(name: ProcessName): Promise<number> {
  const text = await line.current.processes.scrape(name);
  return Number(/^process_resident_memory_bytes(?:\{[^}]*\})? (\S+)$/m.exec(text)?.[1]);
}

test(
  "dead connections to PostgreSQL: not ready within 5 s, accepts and delivers again within 15 s, in bounded memory",
  async () => {
    await withoutPause(async () => {
      await untilDelivered("api");
      await untilDelivered("edge");
      await untilReady();
      const before = await residentBytes("api");
      line.current.postgres.blackHole();
      const flood = Promise.all(Array.from({ length: FLOOD }, async () => await publish({ LARGE })));
      const unready = Promise.all(PROCESSES.map(untilNotReady));
      const recovered = await Promise.all([untilDelivered("api"), untilDelivered("edge")]);
      const unreadyMs = await unready;
      const answers = await flood;
      const grown = (await residentBytes("api")) - before;
      unreadyMs.forEach((ms) => expect(ms).toBeLessThan(UNREADY_MAX_MS));
      recovered.forEach(({ arrivedMs }) => expect(arrivedMs).toBeLessThan(DELIVERY_MAX_MS));
      for (const { status, headers } of answers) {
        // 429 if so many of the tenant's events wait that no more fit.
        expect([202, 429, 503]).toContain(status);
        expect(status === 202 || headers.has("retry-after")).toBe(true);
      }
      expect(grown).toBeLessThan(400 * MEBIBYTE);
      await untilReady();
    });
  },
  TIMEOUT_MS,
);

test(
  "dead connections to Temporal: events accepted meanwhile are delivered within 15 s",
  async () => {
    await withoutPause(async () => {
      await untilReady();
      await untilDelivered("api");
      line.current.temporal.blackHole();
      const began = performance.now();
      const [recovered] = await Promise.all([untilDelivered("api"), untilNotReady("api")]);
      expect(recovered.arrivedMs).toBeLessThan(DELIVERY_MAX_MS);
      await untilReady();
      expect(performance.now() - began).toBeLessThan(DELIVERY_MAX_MS);
    });
  },
  TIMEOUT_MS,
);
