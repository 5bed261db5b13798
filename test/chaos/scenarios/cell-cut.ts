/** A cell is cut off from its home cell while its tenants' events flow. */
import { setTimeout as delay } from "node:timers/promises";
import { migrateDatabase } from "../../../src/database/migrate.ts";
import { accessToken, provisionTenant } from "../../bench/environment/provision.ts";
import { type TenantGroup, World } from "../../bench/environment/world.ts";
import { monotonicMs } from "../../bench/load/monotonic.ts";
import { round } from "../../bench/report/measurement.ts";
import { startTcpProxy } from "../../support/tcp-proxy.ts";
import type { SetScene } from "../cases.ts";
import { countLedger, ledgerFiles } from "../ledger.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import { fatalAnswers, promises } from "../run-case.ts";
import { publishParts, repeatedAnswers, sizeOf } from "../traffic.ts";
import { Trial } from "../trial.ts";
import { askOnce, countOf, must, until } from "./tenant-requests.ts";

/** Nobody calls these addresses; the first one is the issuer of tokens. */
const HOME_URL = "http://127.0.0.1:9";
const CELLS = { SIGNET_CELLS: `eu=${HOME_URL},us=http://127.0.0.1:10`, SIGNET_PUBLIC_URL: HOME_URL };
const TYPES = ["cell.type_00", "cell.type_01"];
const ENDPOINTS = 4;
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
    await migrateDatabase({ adminUrl, cell: { url: login.href, name: "us" }, nowMs: Date.now() });
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

/** Creates a tenant at home, and its endpoints in the cell. Half of them fail each first attempt. */
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
  return { group: { tenants: [tenant], types: TYPES, endpoints }, token };
}

interface Probe {
  readonly sentMs: number;
  readonly status: number;
}

/** Asks the cell's api again and again. */
function probe(base: string, token: string): { readonly seen: readonly Probe[]; end(): Promise<void> } {
  const seen: Probe[] = [];
  const ended = new AbortController();
  const asking = (async () => {
    while (!ended.signal.aborted) {
      const sentMs = monotonicMs();
      const { status } = await askOnce({ base, token, method: "GET", path: "/v1/webhooks/event-types" });
      seen.push({ sentMs, status });
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

export async function cellCut(scene: SetScene): Promise<CaseOutcome> {
  const cells = await startCells(scene);
  const { home, us, wire } = cells;
  try {
    const { group, token } = await tenantOfCell(scene, cells);
    const base = us.signet.apiUrl;
    await until(
      async () =>
        (await countOf(us, "SELECT count(*)::int AS n FROM endpoints WHERE state = 'ACTIVE'")) === ENDPOINTS,
      "the endpoints",
      LOG_MS,
    );
    const failing = group.endpoints.slice(ENDPOINTS / 2);
    await scene.load.behave(failing, { kind: "fail", attempts: 1 });
    const { events, perSecond, outageMs } = sizeOf("long", scene.quick);
    const trial = await Trial.begin({ ...scene, world: us }, events);
    const probing = probe(base, token);
    try {
      const publishing = publishParts(
        { world: home, load: scene.load, apiUrl: base },
        [{ from: 0, count: events, group, pace: { kind: "open", perSecond } }],
        { run: trial.run, ledger: ledgerFiles(scene.stack.directory, trial.run).accepted },
      );
      await trial.untilArrived(events * 0.3);
      const inFlight = await trial.inFlight();
      wire.freeze();
      const cutMs = monotonicMs();
      await delay(outageMs);
      wire.thaw();
      const backMs = monotonicMs();
      const published = await publishing;
      const settled = await trial.settle();
      await probing.end();
      const fates = await trial.fates();
      const ledger = countLedger(fates);
      const admitted = probing.seen.filter(({ status }) => status === 200);
      const lastMs = Math.max(
        cutMs,
        ...admitted.filter(({ sentMs }) => sentMs < backMs).map(({ sentMs }) => sentMs),
      );
      const againMs = Math.min(
        ...admitted.filter(({ sentMs }) => sentMs >= backMs).map(({ sentMs }) => sentMs),
      );
      const meanwhile = fates
        .flatMap(({ requestsMs }) => requestsMs)
        .filter((atMs) => atMs > cutMs + 1_000 && atMs < backMs).length;
      const answers = new Set(probing.seen.map(({ status }) => status));
      let unsent = Number.NaN;
      await until(
        async () => (unsent = (await countOf(us, LOG_LEFT)) - (await countOf(home, LOG_SENT))) === 0,
        "the cell's log to be at home",
        LOG_MS,
      ).catch(() => undefined);
      return {
        ledger,
        findings: {
          events,
          sent_again: repeatedAnswers(published),
          in_flight: inFlight,
          admitted_after_cut_ms: round(lastMs - cutMs, 0),
          admits_again_s: round((againMs - backMs) / 1_000, 2),
          arrived_while_cut_off: meanwhile,
          answers: [...answers],
        },
        targets: [
          ...promises(ledger.accepted, ledger.lost, events, settled),
          atMost("acknowledged twice", ledger.duplicated, 0),
          atMost("last token admitted after the cut, ms", lastMs - cutMs, ADMITTED_MS + LATE_MS),
          atMost("admits tokens again after s", (againMs - backMs) / 1_000, FLOW_SECONDS),
          atMost("no delivery while cut off", meanwhile > 0 ? 0 : 1, 0),
          atMost("entries of the log that are not at home", unsent, 0),
          fatalAnswers(repeatedAnswers(published)),
        ],
      };
    } finally {
      await probing.end();
      await trial.end();
    }
  } finally {
    await cells.close();
  }
}
