import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { OWN_METRICS, type ProcessName } from "#observability/metrics.ts";
import { eventually } from "#test/support/eventually.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { NO_PROMTOOL, promtool } from "#test/support/promtool.ts";
import { startReceiver } from "#test/support/receiver-server.ts";
import { startScrapedProcesses } from "#test/support/scraped-processes.ts";
import { useStarted } from "#test/support/started.ts";
import { useWorld } from "#test/support/world.ts";

allowMinutes(4);

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");
const PROCESSES: readonly ProcessName[] = ["api", "worker", "edge", "hub"];

const world = useWorld();
const processes = useStarted("the processes", async () => await startScrapedProcesses(world.current));

/** Returns the metric families' types by name. */
function familiesOf(text: string): ReadonlyMap<string, string> {
  return new Map(
    [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = "", type = ""]) => [name, type]),
  );
}

async function exportedAnywhere(): Promise<ReadonlyMap<string, string>> {
  const texts = await Promise.all(PROCESSES.map(async (name) => await processes.current.scrape(name)));
  return new Map(texts.flatMap((text) => [...familiesOf(text)]));
}

/** Returns the value of a series, or undefined if it is missing. */
function valueOf(text: string, series: string): number | undefined {
  const line = text.split("\n").find((candidate) => candidate.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
}

async function read(path: string): Promise<string> {
  return await readFile(join(REPOSITORY, path), "utf8");
}

/** Returns the metrics in PromQL expressions; `up` is Prometheus' own. */
function metricsNamed(text: string): readonly string[] {
  return [...new Set(text.match(/\b(?:signet|temporal|nodejs|process)_[a-z0-9_]+\b/g))];
}

describe("the metrics of real processes", () => {
  it.each(PROCESSES)("of the %s are exactly those in the documentation's table", async (name) => {
    const exported = [...familiesOf(await processes.current.scrape(name))].filter(([family]) =>
      family.startsWith("signet_"),
    );
    const table = (await read("docs/observability.md")).match(/^\| `signet_.*$/gm) ?? [];
    const documented = table
      .map((row) => row.split(" | ").map((cell) => cell.replaceAll(/[`|]/g, "").trim()))
      .filter(([, , , of = ""]) => of.split(", ").includes(name))
      .map(([family = "", type = ""]) => [family, type] as const);
    expect(new Map(exported)).toEqual(new Map(documented));
    expect(exported.length).toBeGreaterThan(10);
  });

  it.skipIf(NO_PROMTOOL).each(PROCESSES)("of the %s pass `promtool check metrics`", async (name) => {
    expect(await promtool(["check", "metrics"], await processes.current.scrape(name))).toEqual({
      code: 0,
      output: "",
    });
  });

  it("hold as many connections to PostgreSQL as the documentation's table says", async () => {
    const rows = (await read("docs/operations.md")).matchAll(
      /^\| (api|worker|edge|hub) \|[^|]*\| (\d+) \| (\d+) \| (?:(\d+) to the pooler, )?(\d+) to PostgreSQL \|$/gm,
    );
    let own = 0;
    for (const [, name, ownOfIt, most, pooled = "0", direct] of rows) {
      const sizes = [
        ...(await processes.current.scrape(name as ProcessName)).matchAll(
          /^signet_database_pool_size\{role="(\w+)"\} (\d+)$/gm,
        ),
      ].map(([, role, size]) => ({ role, size: Number(size) }));
      const inPools = sizes.reduce((sum, { size }) => sum + size, 0);
      expect({ name, most: inPools + Number(ownOfIt) }).toEqual({ name, most: Number(most) });
      expect(Number(pooled) + Number(direct)).toBe(Number(most));
      own += Number(ownOfIt);
    }
    expect(own).toBe(9);
    await eventually(async () => {
      const { rows: found } = await world.current.sql.query<{ pid: number }>(
        `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND (application_name IN ('signet_listener', 'signet_hub')
           OR pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2))`,
      );
      return found.length === own;
    }, "the connections outside pools");
  });

  it("have requests by route pattern and attempts by outcome, and identify nobody", async () => {
    const { current: of } = processes;
    const { apiUrl, edgeUrl } = of;
    const here = world.current;
    await fetch(`${apiUrl}/v1/webhooks/endpoints/ep_000000000000000000000000`);
    await fetch(`${edgeUrl}/v1/nothing/here`);
    const receiver = await startReceiver();
    try {
      const tenantId = await here.createTenant();
      await here.createEndpoint(tenantId, receiver.url);
      const { deliveries } = await here.publish(tenantId);
      const { id = "" } = deliveries[0] ?? {};
      await here.untilDelivery(tenantId, id, ({ state }) => state === "DELIVERED");
      await eventually(
        async () =>
          valueOf(await of.scrape("worker"), 'signet_attempts_total{outcome="delivered"}') === 1 &&
          valueOf(await of.scrape("worker"), 'signet_deliveries_ended_total{state="delivered"}') === 1,
        "the attempt to be counted",
      );
    } finally {
      await receiver.close();
    }
    const [api, worker, edge] = [await of.scrape("api"), await of.scrape("worker"), await of.scrape("edge")];
    expect(api).toContain(
      'signet_http_requests_total{listener="public",route="/v1/webhooks/endpoints/:id",method="GET",status="401"} 1',
    );
    expect(valueOf(worker, "signet_first_attempt_lag_seconds_count")).toBe(1);
    expect(valueOf(worker, "signet_attempt_seconds_count")).toBe(1);
    expect(worker).toContain('signet_database_pool_size{role="signet_worker"} 10');
    expect(familiesOf(worker).get("temporal_request_total")).toBe("counter");
    for (const text of [api, worker, edge]) {
      expect(text).not.toMatch(/"(?:ten|ep|dlv|evt|crd|prn|bat)_/);
      expect(text).toContain('process="');
    }
  });

  it("report the process's dependencies", async () => {
    const { current: of } = processes;
    await eventually(
      async () =>
        valueOf(await of.scrape("worker"), 'signet_check_ok{check="temporal"}') === 1 &&
        valueOf(await of.scrape("edge"), 'signet_check_ok{check="revocation"}') === 1,
      "the checks to have run",
    );
    expect(await of.scrape("worker")).not.toContain('check="process"');
  });
});

describe("the dashboard and the alert rules", () => {
  it.each(["deploy/grafana/dashboard.json", "deploy/prometheus/alerts.yml"])(
    "%s uses only metrics that a real process exports",
    async (path) => {
      const named = metricsNamed(await read(path));
      expect(named.length).toBeGreaterThan(15);
      // Temporal's SDK creates its metrics on first use, some with the first checkpoint, which is due every minute.
      await expect
        .poll(
          async () => {
            const exported = await exportedAnywhere();
            return named.filter((name) => {
              const family = name.replace(/_(?:bucket|sum|count)$/, "");
              return !exported.has(name) && exported.get(family) !== "histogram";
            });
          },
          { timeout: 90_000, interval: 500 },
        )
        .toEqual([]);
    },
  );
});

it("every metric is in the table of at least one process", () => {
  expect(OWN_METRICS.filter(({ processes: of }) => of.length === 0)).toEqual([]);
});
