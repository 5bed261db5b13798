/**
 * README's comparison: each row names the tests that prove Signet's column, or has its words from a measurement or a
 * record with a date in docs/. What it says about the others comes from their sources (docs/coming-from.md).
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { readDocument } from "#test/support/documents.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");

/** Tests by file: the beginnings of their names. */
type Proof = Readonly<Record<string, readonly string[]>>;

const PROOFS: Readonly<Record<string, Proof>> = {
  Purpose: {
    "test/promises/main-job.test.ts": ["an event reaches the receiver, signed, and is DELIVERED"],
    "test/promises/token.test.ts": ["a token carries tenant, role's scopes and region"],
  },
  Needs: {
    "test/unit/repository/compose-file.test.ts": [
      "the service needs PostgreSQL and Temporal, and nothing else",
    ],
  },
  "Published images and SDKs": {
    "test/unit/repository/readme-table.test.ts": ["README says that nothing is published as long as"],
  },
  "Ownership check of endpoints": {
    "test/promises/registration.test.ts": ["the secret signs a ping that is sent at once; 200 makes"],
  },
  "Attempts by default": {
    "test/promises/retries.test.ts": ["the schedule has 17 attempts, backs off exponentially"],
  },
  "`Retry-After`": {
    "test/promises/retries.test.ts": ["Retry-After moves the next attempt"],
    "test/unit/domain/retry-schedule.test.ts": ["waits as long as Retry-After asks, up to 24 hours"],
  },
  "Dead letters with an expiry": {
    "test/promises/dead-letters.test.ts": ["after 17 failures an event is a dead letter for 7 days"],
    "test/integration/api/webhook-dead-letters.test.ts": ["a dead letter is EXPIRED by the clock alone"],
  },
  Replay: {
    "test/promises/dead-letters.test.ts": ["a bulk replay delivers every dead letter of its filter once"],
    "test/integration/api/replays.test.ts": [
      "replays exactly what a dry run counts, each once",
      "keeps its rate and can be paused, resumed and cancelled",
    ],
  },
  "Resend after success": {
    "test/promises/dead-letters.test.ts": ["a delivered event is sent again on request"],
  },
  "Private targets blocked by default": {
    "test/integration/delivery/egress-guard.test.ts": [
      "no listener is reached under the production policy",
      "by a name that resolves to any address of this machine",
    ],
  },
  "Tenant portal": {
    "test/browser/journey.test.ts": ["an endpoint is added, its secret shown once, and verified by the ping"],
  },
  "Publish from a queue": {
    "test/unit/api/openapi.test.ts": ["events are published by one operation alone"],
  },
  "Targets other than HTTP": {
    "test/integration/api/webhook-endpoints.test.ts": ["is registered for HTTP alone, not for %s"],
  },
  "Automatic client-secret rotation": {
    "test/promises/rotation.test.ts": ["a client with the library runs for a year"],
  },
  "Certificate-bound tokens (RFC 8705)": {
    "test/promises/mutual-tls.test.ts": ["a token is bound to the certificate with which it was requested"],
  },
  "Stated bound for revoking a JWT": {
    "test/promises/revocation.test.ts": [
      "a revoked credential's tokens end at both edges and the api within 250 ms",
    ],
  },
  "Tamper-evident audit log": {
    "test/promises/revocation.test.ts": [
      "a revocation is an entry of the compliance log, which `signet audit",
    ],
    "test/integration/compliance/verify.test.ts": ["edits a hash"],
  },
};

/** The systems in the columns of README after Signet that are measured. */
const MEASURED_PEERS = ["svix", "outpost"] as const;

function cellsOf(line: string): string[] {
  return line
    .slice(1, -1)
    .split("|")
    .map((cell) => cell.trim());
}

/** Returns the tables of a document, as their rows. */
function tablesOf(text: string): string[][] {
  const tables = text.match(/(?:^\|.*\|\n)+/gm) ?? [];
  return tables.map((table) => table.trimEnd().split("\n"));
}

let readme: string;
/** The rows below the head, by their first cell. */
let rows: ReadonlyMap<string, string>;

beforeAll(async () => {
  readme = await readDocument("README.md");
  const comparison = tablesOf(readme).find(([head = ""]) => cellsOf(head)[1] === "Signet") ?? [];
  rows = new Map(comparison.slice(2).map((line) => [cellsOf(line)[0] ?? "", line]));
});

/** The runs beside peers, as docs/benchmarks.md has them. */
async function measured(): Promise<(load: string, system: string) => string> {
  const [, section = ""] =
    /^## Beside Svix and Outpost\n([\s\S]*?)^## /m.exec(await readDocument("docs/benchmarks.md")) ?? [];
  expect(section).toMatch(/ rounds? on \d{4}-\d\d-\d\d at [0-9a-f]{7,}/);
  const [table = []] = tablesOf(section);
  const [head = ""] = table;
  return (load, system) => {
    const line = table.find((row) => cellsOf(row)[0] === load) ?? "";
    const [median = ""] = (cellsOf(line)[cellsOf(head).indexOf(system)] ?? "").split(" ");
    return median;
  };
}

/** Returns a row of the measured systems. A peer is ahead if its first figure is lower. */
function measuredRow(title: string, shown: (system: string) => string, lowerIsBetter: boolean): string {
  const [own = "", ...peers] = ["signet", ...MEASURED_PEERS].map(shown);
  const ahead = lowerIsBetter
    ? peers.some((peer) => Number.parseFloat(peer) < Number.parseFloat(own))
    : peers.some(
        (peer) => Number.parseFloat(peer.replaceAll(",", "")) > Number.parseFloat(own.replaceAll(",", "")),
      );
  return `| ${[title, ahead ? `**${own}**` : own, ...peers, "not measured", "–"].join(" | ")} |`;
}

/** Returns every row whose figures are those of a measurement. */
async function measuredRows(): Promise<Readonly<Record<string, string>>> {
  const of = await measured();
  const short = (load: string, system: string): string => Number(of(load, system)).toPrecision(2);
  const whole = (load: string, system: string): string =>
    Math.round(Number(of(load, system).replaceAll(",", ""))).toLocaleString("en-US");
  const saturation = (system: string): string =>
    [whole("saturation_32: per second", system), whole("saturation_64: per second", system)].join(" to ");
  const cpu = (system: string): string =>
    [short("open_50: CPU-s per 1,000", system), short("open_200: CPU-s per 1,000", system)].join(", ");
  const latency = (system: string): string => `${short("open_50: p50 ms", system)} ms`;
  const cpuTitle = "CPU-seconds per 1,000 events at 50/s, 200/s";
  return {
    "Median latency at 50 events/s": measuredRow("Median latency at 50 events/s", latency, true),
    "Deliveries/s at saturation": measuredRow("Deliveries/s at saturation", saturation, false),
    [cpuTitle]: measuredRow(cpuTitle, cpu, true),
  };
}

const CONFORMANCE = "OpenID conformance suite";

test("every row of the comparison names its proof, and every proof has its row", async () => {
  const proven = [...Object.keys(PROOFS), ...Object.keys(await measuredRows()), CONFORMANCE];
  expect([...rows.keys()].toSorted()).toEqual(proven.toSorted());
});

test.each(Object.entries(PROOFS))("the tests of the row %s exist", async (_row, proof) => {
  for (const [file, names] of Object.entries(proof)) {
    expect(existsSync(join(REPOSITORY, file)), file).toBe(true);
    const text = await readDocument(file);
    expect(names.filter((name) => !text.includes(`"${name}`))).toEqual([]);
  }
});

test("measured rows are those of the dated run in docs/benchmarks.md, and bold where a peer is ahead", async () => {
  for (const [title, wanted] of Object.entries(await measuredRows())) {
    expect(rows.get(title)).toBe(wanted);
  }
});

test("the row of the OpenID suite adds up the dated runs of docs/conformance.md", async () => {
  const conformance = await readDocument("docs/conformance.md");
  expect(conformance).toMatch(/ on \d+ [A-Z][a-z]+ \d{4}, against commit `[0-9a-f]+`/);
  const [head = "", , ...plans] =
    tablesOf(conformance).find(([first = ""]) => first.includes("Modules")) ?? [];
  const sum = (column: string): number =>
    plans.reduce((total, line) => total + Number(cellsOf(line)[cellsOf(head).indexOf(column)]), 0);
  expect([sum("Failed"), sum("Skipped")]).toEqual([0, 0]);
  expect(cellsOf(rows.get(CONFORMANCE) ?? "")[1]).toBe(
    `**not certified**; of [${sum("Modules")} modules](docs/conformance.md) of FAPI 2.0, Shared Signals and CAEP, ${sum("Passed")} pass and ${sum("Warnings") === 2 ? "two" : sum("Warnings")} pass with a warning`,
  );
});

test("README says that nothing is published as long as the other documents say so", async () => {
  const [own] = cellsOf(rows.get("Published images and SDKs") ?? "").slice(1);
  const unpublished = {
    "docs/client.md": "No version is on npm yet",
    "docs/cli.md": "It is not on npm yet",
    "sdk/python/README.md": "No version is on PyPI yet",
  };
  for (const [file, sentence] of Object.entries(unpublished)) {
    expect((await readDocument(file)).includes(sentence), file).toBe(own === "**none yet**");
  }
});
