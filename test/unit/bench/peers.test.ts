import { describe, expect, it } from "vitest";
import { parsePeer } from "#test/bench/environment/peer.ts";
import { parseRigResult } from "#test/bench/load/rig.ts";
import { parseOptions } from "#test/bench/options.ts";
import { describeRun, type PeerRun, peersTable, summarisePeers } from "#test/bench/report/peers.ts";
import { checkTargets } from "#test/bench/report/targets.ts";

/** A result as the rig prints it, with more fields than the bench reads. */
const RESULT = {
  target: "svix",
  mode: "open",
  accepted: 1000,
  rejected: 0,
  lost: 0,
  duplicated: 0,
  publish_per_s: 50,
  e2e_per_s: 49.9,
  lat_ms: { p50: 6.8, p90: 9, p99: 22, max: 31 },
  ack_ms: { p50: 2, p99: 9, max: 12 },
  cpu_s_per_1000: 5,
  cpu_s_per_1000_settled: 5.4,
  pss_mib_total: 210,
  procs: { svix: { cpu_s: 3, idle_cpu_frac: 0.01 }, postgres: { cpu_s: 2, idle_cpu_frac: 0.004 } },
};

const DIRECTORY = "/somewhere";

interface Given {
  readonly p50?: number;
  readonly p99?: number;
  readonly cpu?: number;
  readonly rate?: number;
  readonly lost?: number;
}

function run(
  subject: string,
  load: string,
  round: number,
  { p50 = 10, p99 = 20, cpu = 1, rate = 100, lost = 0 }: Given,
): PeerRun {
  const result = {
    ...RESULT,
    lost,
    e2e_per_s: rate,
    cpu_s_per_1000: cpu,
    lat_ms: { ...RESULT.lat_ms, p50, p99 },
  };
  return describeRun({ subject, load, round, result, othersCores: 0, loadAverage: 1 });
}

describe("the rig's output", () => {
  it("ends with the result, after whatever its set-up printed", () => {
    const result = parseRigResult(`b0 POST http://127.0.0.1/ -> 201 {}\n${JSON.stringify(RESULT)}\n`);
    expect(
      describeRun({ load: "open_50", subject: "svix", round: 2, result, othersCores: 0.126, loadAverage: 3 }),
    ).toEqual({
      load: "open_50",
      subject: "svix",
      round: 2,
      per_second: 49.9,
      published_per_second: 50,
      p50_ms: 6.8,
      p90_ms: 9,
      p99_ms: 22,
      max_ms: 31,
      ack_p50_ms: 2,
      ack_p99_ms: 9,
      cpu_s_per_1000: 5,
      cpu_s_per_1000_settled: 5.4,
      cpu_s: { svix: 3, postgres: 2 },
      idle_cores: 0.014,
      pss_mib: 210,
      accepted: 1000,
      refused: 0,
      lost: 0,
      doubled: 0,
      others_cores: 0.13,
      load_average: 3,
    });
  });

  it.each([
    ["nothing", "", "no result"],
    ["an error", "rig: connection refused\n", "no result: rig: connection refused"],
    // When nothing arrives, there is no rate.
    ["a result without a rate", JSON.stringify({ ...RESULT, e2e_per_s: undefined }), "has no e2e_per_s"],
    ["a result without latencies", JSON.stringify({ ...RESULT, lat_ms: undefined }), "has no lat_ms"],
  ])("is refused if it is %s", (_, output, message) => {
    expect(() => parseRigResult(output)).toThrow(message);
  });
});

describe("a peer's target file", () => {
  const target = {
    name: "svix",
    health: "http://127.0.0.1:1/health",
    restart: "$PEERS/run/svix-start.sh",
    procs: [{ name: "svix", pidfile: "$PEERS/run/svix.pid", server: true }],
    publish: { url: "http://127.0.0.1:1/msg" },
  };

  it("is relative to the directory, and starts with `restart` if it has no `start`", () => {
    expect(parsePeer(JSON.stringify(target), DIRECTORY)).toEqual({
      ...target,
      restart: "/somewhere/run/svix-start.sh",
      start: "/somewhere/run/svix-start.sh",
      procs: [{ name: "svix", pidfile: "/somewhere/run/svix.pid", server: true }],
    });
    expect(parsePeer(JSON.stringify({ ...target, start: "$PEERS/all" }), DIRECTORY)?.start).toBe(
      "/somewhere/all",
    );
  });

  it("is left out if it publishes nothing", () => {
    expect(parsePeer(JSON.stringify({ ...target, publish: undefined }), DIRECTORY)).toBeUndefined();
  });

  it.each([
    [{ health: undefined }, "needs name, health and start"],
    [{ restart: undefined }, "needs name, health and start"],
    [{ name: "signet" }, '"signet" cannot be a peer\'s name'],
    [{ name: "../svix" }, "cannot be a peer's name"],
    [{ procs: [] }, "procs names no process"],
  ])("is refused with %j", (change, message) => {
    expect(() => parsePeer(JSON.stringify({ ...target, ...change }), DIRECTORY)).toThrow(message);
  });
});

describe("the comparison", () => {
  it("divides Signet's medians by each peer's, with the range over the rounds", () => {
    const runs = [
      run("signet", "open_50", 1, { p50: 9 }),
      run("svix", "open_50", 1, { p50: 6 }),
      run("signet", "open_50", 2, { p50: 12 }),
      run("svix", "open_50", 2, { p50: 6 }),
      run("signet", "open_50", 3, { p50: 10 }),
      run("svix", "open_50", 3, { p50: 8 }),
    ];
    const { figures, ratios } = summarisePeers(runs);
    expect(figures["open_50"]?.["signet"]?.p50_ms).toEqual({ median: 10, least: 9, most: 12 });
    expect(figures["open_50"]?.["svix"]?.p50_ms).toEqual({ median: 6, least: 6, most: 8 });
    expect(ratios["open_50"]?.["svix"]?.p50_ms).toEqual({ median: 1.667, least: 1.25, most: 2 });
    expect(ratios["open_50"]).not.toHaveProperty("signet");
  });

  it("takes the mean of the middle two of an even number of rounds", () => {
    const runs = [4, 1, 2, 9].map((cpu, index) => run("signet", "open_50", index + 1, { cpu }));
    expect(summarisePeers(runs).figures["open_50"]?.["signet"]?.cpu_s_per_1000.median).toBe(3);
  });

  it("prints latencies of open loops and rates of closed ones", () => {
    const runs = ["open_50", "saturation_64"].flatMap((load) => [
      run("signet", load, 1, { p50: 9, p99: 30, cpu: 2, rate: 1_800, lost: 1 }),
      run("outpost", load, 1, { p50: 30, p99: 60, cpu: 4, rate: 1_000 }),
    ]);
    expect(peersTable(summarisePeers(runs)).split("\n")).toEqual([
      "| load | signet | outpost | signet / outpost |",
      "| --- | --- | --- | --- |",
      "| open_50: p50 ms | 9 | 30 | 0.3 |",
      "| open_50: p99 ms | 30 | 60 | 0.5 |",
      "| open_50: CPU-s per 1,000 | 2 | 4 | 0.5 |",
      "| saturation_64: per second | 1,800 | 1,000 | 1.8 |",
      "| saturation_64: CPU-s per 1,000 | 2 | 4 | 0.5 |",
      "| refused / lost / doubled | 0 / 2 / 0 | 0 / 0 / 0 |  |",
    ]);
  });
});

describe("the targets beside peers", () => {
  const rounds = (signet: Given, svix: Given, outpost: Given): PeerRun[] =>
    ["open_50", "open_200", "saturation_32", "saturation_64"].flatMap((load) => [
      run("signet", load, 1, signet),
      run("svix", load, 1, svix),
      run("outpost", load, 1, outpost),
    ]);
  const results = (runs: readonly PeerRun[]): readonly (readonly [number, boolean])[] =>
    checkTargets({ measurements: [], findings: { peers: summarisePeers(runs) } }).map(({ got, met }) => [
      got,
      met,
    ]);

  it("are met at their limits", () => {
    const runs = rounds(
      { p50: 9, p99: 40, cpu: 3, rate: 1_500 },
      { p50: 6, cpu: 2 },
      { p50: 30, cpu: 3.75, rate: 1_000 },
    );
    expect(results(runs)).toEqual([
      [1.5, true],
      [40, true],
      [1.5, true],
      [1.5, true],
      [0.8, true],
      [1.5, true],
      [0.8, true],
      [0, true],
      [0, true],
      [0, true],
    ]);
  });

  it("are missed beyond their limits", () => {
    const runs = rounds(
      { p50: 9.1, p99: 41, cpu: 3.1, rate: 1_480, lost: 1 },
      { p50: 6, cpu: 2 },
      { cpu: 2.5, rate: 1_000 },
    );
    expect(results(runs)).toEqual([
      [1.517, false],
      [41, false],
      [1.55, false],
      [1.517, false],
      [1.24, false],
      [1.48, false],
      [1.24, false],
      [0, true],
      [4, false],
      [0, true],
    ]);
  });

  it("are left out for a peer that did not take part", () => {
    const runs = [run("signet", "open_50", 1, {}), run("convoy", "open_50", 1, {})];
    expect(results(runs)).toEqual([
      [20, true],
      [0, true],
      [0, true],
      [0, true],
    ]);
  });
});

describe("the bench's options", () => {
  it("give each system three turns, and one with --quick", () => {
    expect(parseOptions([]).peers).toEqual({ rig: undefined, peers: undefined });
    expect(parseOptions([]).rounds).toBe(3);
    expect(parseOptions(["--quick"]).rounds).toBe(1);
    expect(parseOptions(["--quick", "--rounds", "5"]).rounds).toBe(5);
  });

  it.each([
    ["--rounds", "0"],
    ["--rounds", "21"],
    ["--rounds", "two"],
    ["--busy", "65"],
    ["--busy", "1.5"],
    ["--busy", ""],
  ])("refuse %s %j", (name, value) => {
    expect(() => parseOptions([name, value])).toThrow(`${name} ${value}: must be a whole number`);
  });
});
