/** Measures the address policy per check, and counts connections of hostile URLs at listeners. */
import { AddressPolicy } from "#webhooks/sending/address-policy.ts";
import { HttpSender } from "#webhooks/sending/http-sender.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import { hostileUrls, privateAddresses, startCountingListeners } from "#test/support/hostile-targets.ts";
import vectors from "#test/support/vectors/targets.json" with { type: "json" };
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";

const CHECKS = 200_000;
const TURNS = 5;

/** As in a production deployment with on-premises receivers. */
const policy = new AddressPolicy({
  allowedCidrs: ["10.20.0.0/16", "fd12::/16"],
  deniedCidrs: ["10.20.1.0/24", "198.51.100.0/24", "203.0.113.0/24"],
  allowHttp: false,
  ownListeners: [8_080, 8_081, 8_443, 9_464].map((port) => ({ host: "127.0.0.1", port })),
});
const ADDRESSES = [
  "93.184.216.34",
  "2606:4700:4700::1111",
  "10.20.3.4",
  "169.254.169.254",
  "::ffff:127.0.0.1",
];

/** Returns microseconds per call: the median of the turns after one warm-up. */
function microseconds(calls: number, call: (index: number) => void): number {
  const turns: number[] = [];
  for (let turn = 0; turn <= TURNS; turn += 1) {
    const from = performance.now();
    for (let index = 0; index < calls; index += 1) {
      call(index);
    }
    turns.push(((performance.now() - from) * 1_000) / calls);
  }
  const sorted = turns.slice(1).toSorted((a, b) => a - b);
  return round(sorted[Math.floor(sorted.length / 2)] ?? 0, 3);
}

/** Sends to every hostile URL. Host names resolve to addresses of this machine. */
async function tryHostileUrls(): Promise<{ readonly tried: number; readonly connections: number }> {
  const listeners = await startCountingListeners();
  const strict = new AddressPolicy({ allowedCidrs: [], allowHttp: true, ownListeners: [] });
  const addresses = privateAddresses(strict);
  const http = new HttpSender({
    timers: machineTimers,
    policy: strict,
    clock: systemClock,
    resolver: async () => ["127.0.0.1", "::1"],
  });
  const urls = [
    ...hostileUrls(addresses, listeners.port),
    ...vectors.denied_addresses.map((_, index) => `http://n${index}.example.com:${listeners.port}/`),
  ];
  try {
    for (const url of urls) {
      await http.send({ url, headers: {}, body: Buffer.from("{}"), deadlineMs: 3_000 });
    }
  } finally {
    await http.close();
    listeners.close();
  }
  const connections = [...listeners.reached.values()].reduce((sum, count) => sum + count, 0);
  return { tried: urls.length, connections };
}

async function run(bench: Bench): Promise<void> {
  const calls = bench.events(CHECKS);
  const finding = {
    check_us: microseconds(calls, (index) => {
      const address = ADDRESSES[index % ADDRESSES.length] ?? "";
      policy.allowsConnection({ hostname: "hooks.example.com", address, port: 443 });
    }),
    url_us: microseconds(calls / 4, (index) => {
      policy.parseTarget(`https://hooks.example.com/in/${index % 16}?key=value`);
    }),
    hostile: await tryHostileUrls(),
  };
  bench.findings["egress"] = finding;
  bench.log(
    `egress: ${finding.check_us} µs per address, ${finding.url_us} µs per URL; ${finding.hostile.connections} connections from ${finding.hostile.tried} hostile URLs`,
  );
}

export const egress: Scenario = {
  name: "egress",
  about: "the address policy: microseconds per check, and hostile URLs that reach a listener",
  run,
};
