/**
 * Faults of hubs, of edges behind them and of the primary, in separate processes of the production build. Edges report
 * by CLOCK_MONOTONIC when they admitted a token. None does later than 250 ms after the commit of its revocation.
 */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { useTestApi } from "../support/api.ts";
import {
  type Asking,
  type EdgeChild,
  endConnections,
  type Holder,
  type Outcome,
  revokeCredential,
  startEdgeProcesses,
  tokenHolder,
  useAsking,
  verdictOf,
} from "../support/edge-processes.ts";
import { eventually } from "../support/eventually.ts";
import { writeHubCertificates } from "../support/certificates.ts";
import { createHubProcess, type HubChild, storeLeaseKeys } from "../support/hubs.ts";
import { createJumpingClock } from "../support/jumping-clock.ts";
import { monotonicMs } from "../support/monotonic.ts";
import { type OwnDatabase, startOwnDatabase } from "../support/own-database.ts";
import { withoutPause } from "../support/pauses.ts";
import { THOROUGH } from "../support/properties.ts";
import { useStarted } from "../support/started.ts";
import { startTcpProxy, type TcpProxy } from "../support/tcp-proxy.ts";

/** From contract 8. */
const BOUND_MS = 250;
const HUBS = [0, 1];
/** Ten with `npm run test:all`, because a process needs a second of a core to start. edges.test.ts has twenty. */
const EDGES = THOROUGH ? 10 : 5;
/** Waiting requests to a stopped edge. */
const WAITING = 50;
const STEP_MS = 600_000;

let database: OwnDatabase;
const api = useTestApi({
  database: async () => {
    database = await startOwnDatabase();
    return database;
  },
});

/** The first edge reaches its hubs through proxies, each hub the primary through one. */
const made = useStarted("hubs and edges", async () => {
  const directory = await mkdtemp(join(tmpdir(), "signet-hub-faults-"));
  const key = randomBytes(32);
  await storeLeaseKeys(database, [key]);
  const { hub, edge } = await writeHubCertificates(directory);
  const clock = await createJumpingClock(directory);
  const primaryLines: TcpProxy[] = [];
  const hubLines: TcpProxy[] = [];
  const hubs: HubChild[] = [];
  while (hubs.length < HUBS.length) {
    const url = new URL(database.url);
    const line = await startTcpProxy(Number(url.port));
    url.port = String(line.port);
    const child = await createHubProcess({
      ...hub,
      SIGNET_DATABASE_URL: url.href,
      ...clock.environment,
    });
    await child.start();
    primaryLines.push(line);
    hubLines.push(await startTcpProxy(child.port));
    hubs.push(child);
  }
  const following = (urls: readonly string[]) => ({
    ...edge,
    SIGNET_HUBS: urls.join(","),
    SIGNET_LEASE_KEY: key.toString("base64"),
    ...clock.environment,
  });
  const distant = following(hubLines.map(({ port }) => `wss://127.0.0.1:${port}`));
  const near = following(hubs.map(({ url }) => url));
  const settings = [distant, ...Array.from({ length: EDGES - 1 }, () => near)];
  const edges = await startEdgeProcesses({ api, settings });
  return {
    clock,
    edges: edges.edges,
    hubs,
    primaryLines,
    hubLines,
    close: async () => {
      await edges.close();
      await Promise.all(hubs.map(async ({ process }) => await process.stop("SIGKILL")));
      await Promise.all([...primaryLines, ...hubLines].map(async (line) => await line.close()));
      await rm(directory, { recursive: true });
    },
  };
});

/** Its token stays valid, to show that an edge serves. */
let live: Holder;

const asking = useAsking(() => made.current.edges);

/** Measures while the machine runs. `end` undoes what the measurement does to the processes. */
async function measure(
  check: () => Promise<void>,
  end: () => Promise<unknown> | void = () => undefined,
): Promise<void> {
  await withoutPause(async () => {
    try {
      await check();
    } finally {
      await end();
      await asking.stop();
    }
  });
}

function theHub(number: number): HubChild {
  return made.current.hubs[number] as HubChild;
}

beforeEach(async () => {
  live = await tokenHolder(api);
});

interface Fault {
  readonly name: string;
  /** What the affected edges answer to valid tokens during it. */
  readonly affected: "no edge" | "the first edge" | "all edges";
  readonly begin: () => Promise<unknown> | void;
  readonly end: () => Promise<unknown> | void;
}

const kill = async (numbers: readonly number[]) =>
  await Promise.all(numbers.map(async (number) => await theHub(number).process.stop("SIGKILL")));
const start = async (numbers: readonly number[]) =>
  await Promise.all(
    numbers
      .filter((number) => theHub(number).process.state() !== undefined)
      .map(async (number) => await theHub(number).start()),
  );
const signal = (numbers: readonly number[], name: NodeJS.Signals): void =>
  numbers.forEach((number) => theHub(number).process.signal(name));
const freeze = (lines: readonly (TcpProxy | undefined)[]): void => lines.forEach((line) => line?.freeze());
const thaw = (lines: readonly (TcpProxy | undefined)[]): void => lines.forEach((line) => line?.thaw());

const FAULTS: readonly Fault[] = [
  {
    name: "a hub is killed",
    affected: "no edge",
    begin: async () => await kill([0]),
    end: async () => await start([0]),
  },
  {
    name: "all hubs are killed",
    affected: "all edges",
    begin: async () => await kill(HUBS),
    end: async () => await start(HUBS),
  },
  {
    name: "a hub is suspended",
    affected: "no edge",
    begin: () => signal([1], "SIGSTOP"),
    end: () => signal([1], "SIGCONT"),
  },
  {
    name: "all hubs are suspended",
    affected: "all edges",
    begin: () => signal(HUBS, "SIGSTOP"),
    end: () => signal(HUBS, "SIGCONT"),
  },
  {
    name: "a hub is cut off from the primary",
    affected: "no edge",
    begin: () => freeze(made.current.primaryLines.slice(0, 1)),
    end: () => thaw(made.current.primaryLines),
  },
  {
    name: "the primary is cut off",
    affected: "all edges",
    begin: () => freeze(made.current.primaryLines),
    end: () => thaw(made.current.primaryLines),
  },
  {
    name: "an edge is cut off from its hubs",
    affected: "the first edge",
    begin: () => freeze(made.current.hubLines),
    end: () => thaw(made.current.hubLines),
  },
  {
    name: "the connections of an edge are lost in silence",
    affected: "no edge",
    begin: () => made.current.hubLines.forEach((line) => line.blackHole()),
    end: () => undefined,
  },
  {
    name: "the connections of all hubs to the primary are lost in silence",
    affected: "no edge",
    begin: () => made.current.primaryLines.forEach((line) => line.blackHole()),
    end: () => undefined,
  },
  {
    name: "PostgreSQL ends the hubs' connections",
    affected: "no edge",
    begin: async () => await endConnections(api, "signet_hub", HUBS.length),
    end: () => undefined,
  },
];

/** Requests with one token, to the edges that a fault affects and to the others. */
class Split {
  readonly #cut: { readonly count: number; readonly asking: Asking };
  readonly #served: { readonly count: number; readonly asking: Asking };

  constructor(holder: Holder, affected: Fault["affected"]) {
    const { edges } = made.current;
    const count = { "no edge": 0, "the first edge": 1, "all edges": EDGES }[affected];
    this.#cut = { count, asking: asking.start(holder.token, edges.slice(0, count)) };
    this.#served = { count: EDGES - count, asking: asking.start(holder.token, edges.slice(count)) };
  }

  /** Resolves when the affected edges have answered the first, and the others the second. */
  async until(cut: Outcome, served: Outcome): Promise<void> {
    await Promise.all([
      this.#cut.asking.until(this.#cut.count, cut),
      this.#served.asking.until(this.#served.count, served),
    ]);
  }

  /** Stops, and resolves with the instant of the last admission. */
  async stop(): Promise<number> {
    await Promise.all([this.#cut.asking.stop(), this.#served.asking.stop()]);
    return Math.max(this.#cut.asking.lastAdmission(), this.#served.asking.lastAdmission());
  }
}

/** Resolves when a receipt names every edge as one that applies the revocation. */
async function untilReceiptNames(): Promise<void> {
  await eventually(async () => {
    const { edges } = await revokeCredential(api, (await tokenHolder(api)).client);
    const applied = edges.processes.filter(({ kind, state }) => kind === "edge" && state === "applied");
    return applied.length === EDGES;
  }, "a receipt from all edges");
}

describe(`${EDGES} edges behind two hubs admit no revoked token while`, () => {
  for (const { name, affected, begin, end } of FAULTS) {
    test(`${name}, and serve afterwards`, async () => {
      await measure(async () => {
        const [early, late] = [await tokenHolder(api), await tokenHolder(api)];
        const [valid, first, second] = [live, early, late].map((holder) => new Split(holder, affected)) as [
          Split,
          Split,
          Split,
        ];
        await Promise.all([valid, first, second].map(async (all) => await all.until("admitted", "admitted")));

        // One revocation races with the fault. The other one meets it.
        const [racing] = await Promise.all([revokeCredential(api, early.client), begin()]);
        const meeting = await revokeCredential(api, late.client);
        await Promise.all([
          valid.until("REVOCATION_STALE", "admitted"),
          second.until("REVOCATION_STALE", "TOKEN_REVOKED"),
        ]);
        await end();
        await Promise.all([
          valid.until("admitted", "admitted"),
          first.until("TOKEN_REVOKED", "TOKEN_REVOKED"),
          second.until("TOKEN_REVOKED", "TOKEN_REVOKED"),
        ]);
        await valid.stop();
        await untilReceiptNames();
        expect((await first.stop()) - racing.at).toBeLessThanOrEqual(BOUND_MS);
        expect((await second.stop()) - meeting.at).toBeLessThanOrEqual(BOUND_MS);
      }, end);
    });
  }

  test("PostgreSQL restarts, and serve afterwards", async () => {
    await measure(async () => {
      const victim = await tokenHolder(api);
      const [valid, revoked] = [asking.start(live.token), asking.start(victim.token)];
      await Promise.all([valid.until(EDGES, "admitted"), revoked.until(EDGES, "admitted")]);
      const { at } = await revokeCredential(api, victim.client);
      await database.stop();
      const stoppedAt = monotonicMs();
      try {
        await valid.until(EDGES, "REVOCATION_STALE");
      } finally {
        await database.start();
      }
      await Promise.all([valid.until(EDGES, "admitted"), revoked.until(EDGES, "TOKEN_REVOKED")]);
      await Promise.all([valid.stop(), revoked.stop()]);
      await untilReceiptNames();
      const outage = valid.answers.filter(({ admittedAt }) => admittedAt > stoppedAt);
      expect(outage.length).toBeGreaterThan(0);
      expect(revoked.lastAdmission() - at).toBeLessThanOrEqual(BOUND_MS);
    });
  });
});

test("an edge that was suspended during a revocation does not admit the token when it continues", async () => {
  const [edge] = made.current.edges as [EdgeChild];
  const victim = await tokenHolder(api);
  expect(await verdictOf(edge, victim.token)).toMatchObject({ outcome: "admitted" });
  onTestFinished(() => edge.process.signal("SIGCONT"));
  edge.process.signal("SIGSTOP");
  const { edges } = await revokeCredential(api, victim.client);
  expect(edges.acked).toBeLessThan(edges.live);
  const waiting = Array.from({ length: WAITING }, () => edge.send(victim.token));
  await Promise.all(waiting.map(async ({ sent }) => await sent));
  edge.process.signal("SIGCONT");
  const answers = await Promise.all(waiting.map(async ({ answer }) => await answer));
  expect(answers.filter(({ outcome }) => outcome === "admitted")).toEqual([]);
  const [revoked, valid] = [asking.start(victim.token, [edge]), asking.start(live.token, [edge])];
  await Promise.all([revoked.until(1, "TOKEN_REVOKED"), valid.until(1, "admitted")]);
  await Promise.all([revoked.stop(), valid.stop()]);
  expect(revoked.lastAdmission()).toBe(-Infinity);
});

test("steps of the wall clock of hubs and edges admit no revoked token, and the edges keep serving", async () => {
  const { clock } = made.current;
  await measure(
    async () => {
      const valid = asking.start(live.token);
      for (const offsetMs of [STEP_MS, -STEP_MS, 0]) {
        const victim = await tokenHolder(api);
        const revoked = asking.start(victim.token);
        await revoked.until(EDGES, "admitted");
        const [{ at }] = await Promise.all([revokeCredential(api, victim.client), clock.jump(offsetMs)]);
        await Promise.all([revoked.until(EDGES, "TOKEN_REVOKED"), valid.until(EDGES, "admitted")]);
        await revoked.stop();
        expect(revoked.lastAdmission() - at).toBeLessThanOrEqual(BOUND_MS);
      }
      await valid.stop();
    },
    async () => await clock.jump(0),
  );
});
