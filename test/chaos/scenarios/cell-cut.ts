/** A cell is cut off from its home cell while its tenants' events flow. */
import { setTimeout as delay } from "node:timers/promises";
import { migrateDatabase } from "#database/migrate.ts";
import { accessToken, provisionTenant } from "#test/bench/environment/provision.ts";
import { type TenantGroup, World } from "#test/bench/environment/world.ts";
import { monotonicMs } from "#test/bench/load/monotonic.ts";
import { round } from "#test/bench/report/measurement.ts";
import { startTcpProxy } from "#test/support/tcp-proxy.ts";
import type { ChaosCase, SetScene } from "../cases.ts";
import { countLedger, type Fate, ledgerFiles } from "../ledger.ts";
import { untilNone } from "../observe.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import { fatalAnswers, promises } from "../run-case.ts";
import { publishParts, repeatedAnswers, sizeOf } from "../traffic.ts";
import { Trial } from "../trial.ts";
import { askOnce, countOf, must, until } from "./tenant-requests.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

/** Nobody calls these addresses; the first one is the issuer of tokens. */
const HOME_URL = "http://127.0.0.1:9";
const CELLS = { SIGNET_CELLS: `eu=${HOME_URL},us=http://127.0.0.1:10`, SIGNET_PUBLIC_URL: HOME_URL };
/** Each endpoint has its own. */
const TYPES = ["cell.type_00", "cell.type_01", "cell.type_02", "cell.type_03"];
const ENDPOINTS = TYPES.length;
/** In a window of a minute, the attempt after these comes some seconds after the first one. */
const FAILURES = 13;
/** Share of the events that have arrived before the cut. */
const BEFORE = 0.3;
const PROBE_MS = 10;
/** The guarantee, and what the probe's own loop may be late on two cores. */
const ADMITTED_MS = 250;
const LATE_MS = 50;
const FLOW_SECONDS = 10;
const LOG_MS = 60_000;

interface Cells {
  readonly home: World;
  readonly us: World;
  /** Between the cell and the home cell's database. */
  readonly wire: Awaited<ReturnType<typeof startTcpProxy>>;
  close(): Promise<void>;
}

/** Makes the case's world the home cell, and starts another beside it. */
async function startCells({ stack, world: home, load }: SetScene): Promise<Cells> {
  const wire = await startTcpProxy(Number(new URL(home.adminDatabaseUrl).port));
  const us = await World.create({ name: "cell-us", stack, load, raised: {}, profiles: undefined });
  const close = async (): Promise<void> => {
    await us.drop();
    await wire.close();
  };
  try {
    const login = new URL(home.adminDatabaseUrl);
    login.username = "cell_us";
    login.password = "of-the-cell";
    const { adminDatabaseUrl: adminUrl } = home;
    await migrateDatabase({
      timers: machineTimers,
      adminUrl,
      cell: { url: login.href, name: "us" },
      nowMs: Date.now(),
    });
    login.port = String(wire.port);
    await home.run({ ...CELLS, SIGNET_CELL: "eu" });
    await us.run({
      ...CELLS,
      SIGNET_CELL: "us",
      SIGNET_HOME_DATABASE_URL: login.href,
      // Retries come while the cell is cut off.
      SIGNET_RETRY_WINDOW_MS: "60000",
    });
    return { home, us, wire, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Creates a tenant at home, and its endpoints in the cell. */
async function tenantOfCell(
  { load }: SetScene,
  { home, us }: Cells,
): Promise<{ group: TenantGroup; token: string }> {
  const tenant = await provisionTenant(home.signet, home.operatorToken, "abroad", "us");
  const token = await accessToken(home.signet, tenant);
  const base = us.signet.apiUrl;
  const endpoints = await load.openEndpoints(ENDPOINTS);
  // The cell knows a new tenant after a second.
  await until(
    async () =>
      (await askOnce({ base, token, method: "GET", path: "/v1/webhooks/endpoints" })).status === 200,
    "the cell to know the tenant",
    LOG_MS,
  );
  for (const [index, endpoint] of endpoints.entries()) {
    const body = { url: endpoint.url, events: [TYPES[index % TYPES.length]] };
    await must({ base, token, method: "POST", path: "/v1/webhooks/endpoints", body });
  }
  const active = "SELECT count(*)::int AS n FROM endpoints WHERE state = 'ACTIVE'";
  await until(async () => (await countOf(us, active)) === ENDPOINTS, "the endpoints", LOG_MS);
  return { group: { tenants: [tenant], types: TYPES, endpoints }, token };
}

interface Probe {
  /** When its answer arrived. */
  readonly atMs: number;
  readonly status: number;
}

/** Asks the cell's api again and again. */
function probe(base: string, token: string): { readonly seen: readonly Probe[]; end(): Promise<void> } {
  const seen: Probe[] = [];
  const ended = new AbortController();
  const asking = (async () => {
    while (!ended.signal.aborted) {
      const { status } = await askOnce({ base, token, method: "GET", path: "/v1/webhooks/event-types" });
      seen.push({ atMs: monotonicMs(), status });
      await delay(PROBE_MS);
    }
  })();
  return {
    seen,
    end: async () => {
      ended.abort();
      await asking;
    },
  };
}

const LOG_LEFT = "SELECT count(*)::int AS n FROM clog";
const LOG_SENT = "SELECT size::int AS n FROM cell_logs WHERE cell = 'us'";

interface Cut {
  readonly cutMs: number;
  readonly thawMs: number;
}

/** Cuts the cell off for a while, without a FIN or RST. */
async function cutOff({ wire }: Cells, outageMs: number): Promise<Cut> {
  wire.freeze();
  const cutMs = monotonicMs();
  await delay(outageMs);
  const thawMs = monotonicMs();
  wire.thaw();
  return { cutMs, thawMs };
}

/** Returns the entries that are not at home after a while. */
async function unsentEntries({ home, us }: Cells): Promise<number> {
  const left = async (): Promise<number> => (await countOf(us, LOG_LEFT)) - (await countOf(home, LOG_SENT));
  return await untilNone(left, LOG_MS);
}

/** Says when the cell admitted tokens, and what arrived meanwhile. */
function around({ cutMs, thawMs }: Cut, seen: readonly Probe[], fates: readonly Fate[]) {
  const admittedMs = seen.filter(({ status }) => status === 200).map(({ atMs }) => atMs);
  return {
    admittedAfterMs: Math.max(cutMs, ...admittedMs.filter((atMs) => atMs < thawMs)) - cutMs,
    againS: (Math.min(...admittedMs.filter((atMs) => atMs >= thawMs)) - thawMs) / 1_000,
    arrived: fates
      .flatMap(({ requestsMs }) => requestsMs)
      .filter((atMs) => atMs > cutMs + 1_000 && atMs < thawMs).length,
  };
}

async function cutWhileFlowing(scene: SetScene, cells: Cells): Promise<CaseOutcome> {
  const { home, us } = cells;
  const { load, stack, quick } = scene;
  const { group, token } = await tenantOfCell(scene, cells);
  await load.behave(group.endpoints.slice(-1), { kind: "fail", attempts: FAILURES });
  const { events, perSecond, outageMs } = sizeOf("long", quick);
  const base = us.signet.apiUrl;
  const trial = await Trial.begin({ ...scene, world: us }, events);
  const probing = probe(base, token);
  try {
    const publishing = publishParts(
      { world: home, load, apiUrl: base },
      [{ from: 0, count: events, group, pace: { kind: "open", perSecond } }],
      { run: trial.run, ledger: ledgerFiles(stack.directory, trial.run).accepted },
    );
    await trial.untilArrived(events * BEFORE);
    const cut = await cutOff(cells, outageMs);
    const answers = repeatedAnswers(await publishing);
    const settled = await trial.settle();
    await probing.end();
    const fates = await trial.fates();
    const ledger = countLedger(fates);
    const { admittedAfterMs, againS, arrived } = around(cut, probing.seen, fates);
    return {
      ledger,
      findings: {
        events,
        sent_again: answers,
        admitted_after_cut_ms: round(admittedAfterMs, 0),
        admits_again_s: round(againS, 2),
        arrived_while_cut_off: arrived,
      },
      targets: [
        ...promises(ledger.accepted, ledger.lost, events, settled),
        atMost("acknowledged twice", ledger.duplicated, 0),
        atMost("last token admitted after the cut, ms", admittedAfterMs, ADMITTED_MS + LATE_MS),
        atMost("admits tokens again after s", againS, FLOW_SECONDS),
        atMost("no delivery while cut off", arrived > 0 ? 0 : 1, 0),
        atMost("entries of the log that are not at home", await unsentEntries(cells), 0),
        fatalAnswers(answers),
      ],
    };
  } finally {
    await probing.end();
    await trial.end();
  }
}

async function cellCut(scene: SetScene): Promise<CaseOutcome> {
  const cells = await startCells(scene);
  try {
    return await cutWhileFlowing(scene, cells);
  } finally {
    await cells.close();
  }
}

export const CELL_CUT: ChaosCase = {
  name: "cell-cut",
  about: "a cell is cut off from the home cell's database for 40 s",
  run: cellCut,
};
