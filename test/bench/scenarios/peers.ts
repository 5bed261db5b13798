/**
 * Signet and other webhook senders under the same load of an independent generator, in turns on one machine. A turn
 * starts one system with its databases, loads it and stops it, so that no other one uses the machine meanwhile.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { loadavg } from "node:os";
import { join } from "node:path";
import { freePort } from "#test/support/free-port.ts";
import { Peer, readPeers } from "../environment/peer.ts";
import {
  accessToken,
  provisionTenant,
  registerEndpoints,
  type Tenant,
  untilActive,
} from "../environment/provision.ts";
import type { Restartable } from "../environment/restartable.ts";
import type { World } from "../environment/world.ts";
import { buildRig, parseRigResult, type RigLoad, runRig, writeTarget } from "../load/rig.ts";
import { cpuSeconds, machineCpuSeconds, processTree } from "../measure/process-tree.ts";
import {
  describeRun,
  type PeerRun,
  peerRunLine,
  peersTable,
  type RunParts,
  SIGNET,
  summarisePeers,
} from "../report/peers.ts";
import type { Bench, Scenario } from "./bench.ts";
import { PAYLOAD_BYTES } from "./run.ts";

const TENANTS = 10;
const EVENT_TYPE = "bench.event";
const SETUP_TIMEOUT_MS = 2 * 60_000;
const RUN_TIMEOUT_MS = 10 * 60_000;
const SCENARIO_TIMEOUT_MS = 3 * 60 * 60_000;
/** The rig gives a delivery up after this long without an arrival: longer than any peer takes to repeat one. */
const IDLE = ["-idle", "60s"];
/** A process that has just started is slow, so the first load of a turn has a long warm-up. */
const FIRST_WARM_UP = 2_000;
const WARM_UP = 500;

interface RigRun {
  readonly name: string;
  readonly args: (bench: Bench) => readonly string[];
}

function openLoop(perSecond: number, seconds: number): RigRun {
  return {
    name: `open_${perSecond}`,
    args: (bench) => ["open", "-rate", String(perSecond), "-dur", `${bench.seconds(seconds)}s`],
  };
}

function closedLoop(connections: number): RigRun {
  return {
    name: `saturation_${connections}`,
    args: (bench) => ["sat", "-n", String(bench.events(8_000)), "-conc", String(connections)],
  };
}

const RUNS: readonly RigRun[] = [openLoop(50, 20), openLoop(200, 15), closedLoop(32), closedLoop(64)];

/** A system that takes turns. */
interface Subject {
  readonly name: string;
  readonly version: string;
  /** Starts it, ready for events. Returns the path of the rig's target file. */
  readonly start: () => Promise<string>;
  /** Pids of its process trees. */
  readonly roots: () => Readonly<Record<string, number>>;
  readonly stop: () => Promise<void>;
}

interface Setting {
  readonly bench: Bench;
  /** The rig's program. */
  readonly rig: string;
  /** Directory of the rig's files. */
  readonly directory: string;
  readonly load: RigLoad;
}

/** Answers 200 to everything on the rig's address while `work` runs, since the rig listens only during its runs. */
async function withSink<T>(address: string, work: () => Promise<T>): Promise<T> {
  const { hostname, port } = new URL(`http://${address}`);
  const server = createServer((request, response) => {
    request.resume();
    response.end();
  });
  server.listen(Number(port), hostname);
  await once(server, "listening");
  try {
    return await work();
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

async function provision(world: World, { sink, tenant_prefix: prefix }: RigLoad): Promise<Tenant[]> {
  return await withSink(sink, async () => {
    const tenants: Tenant[] = [];
    for (let number = 0; number < TENANTS; number += 1) {
      const tenant = await provisionTenant(world.signet, world.operatorToken, `peers-${number}`);
      const url = `http://${sink}/hook/${prefix}${number}`;
      await registerEndpoints(world.signet, tenant, [{ url, number }], [EVENT_TYPE]);
      tenants.push(tenant);
    }
    await Promise.all(tenants.map(async (tenant) => await untilActive(world.signet, tenant, 1)));
    return tenants;
  });
}

async function writeSignetTarget(
  { directory, load }: Setting,
  world: World,
  tenants: readonly Tenant[],
): Promise<string> {
  const tokens = await Promise.all(
    tenants.map(async (tenant, number): Promise<[string, Record<string, string>]> => {
      const token = await accessToken(world.signet, tenant);
      return [`${load.tenant_prefix}${number}`, { token }];
    }),
  );
  const procs = await Promise.all(
    Object.entries(world.roots.system).map(async ([name, pid]) => {
      const pidfile = join(directory, `${name}.pid`);
      await writeFile(pidfile, `${pid}\n`);
      return { name, pidfile };
    }),
  );
  const target = {
    ...load,
    name: SIGNET,
    health: `${world.signet.apiUrl}/readyz`,
    procs,
    publish: {
      method: "POST",
      url: `${world.signet.apiUrl}/v1/events`,
      headers: { Authorization: "Bearer {{token}}", "Content-Type": "application/json" },
      body: `{"type":"${EVENT_TYPE}","data":{{payload}}}`,
    },
  };
  return await writeTarget(directory, target, Object.fromEntries(tokens));
}

/** PostgreSQL and Temporal's server of the bench, databases first. */
function serversBelow({ stack }: Bench): Restartable[] {
  return [stack.postgres.process, stack.temporal.process].filter((server) => server !== undefined);
}

async function startServersBelow(bench: Bench): Promise<void> {
  for (const server of serversBelow(bench)) {
    if (!server.isRunning) {
      await server.restart();
    }
  }
}

/** Signet as in the other scenarios: api, worker, Temporal and PostgreSQL with the shipped settings. */
function signetSubject(setting: Setting): Subject {
  const { bench, load } = setting;
  let world: World | undefined;
  let tenants: Tenant[] | undefined;
  return {
    name: SIGNET,
    version: "this commit",
    start: async () => {
      await startServersBelow(bench);
      world = await bench.world({}, "peers");
      tenants ??= await provision(world, load);
      return await writeSignetTarget(setting, world, tenants);
    },
    roots: () => world?.roots.system ?? {},
    stop: async () => {
      await world?.stop();
      for (const server of serversBelow(bench).toReversed()) {
        if (server.isRunning) {
          await server.end();
        }
      }
    },
  };
}

function peerSubject({ bench, rig, directory, load }: Setting, peer: Peer): Subject {
  const { target } = peer;
  let path: string | undefined;
  return {
    name: target.name,
    version: target.version ?? "unknown",
    start: async () => {
      await peer.start();
      if (path === undefined) {
        const written = await writeTarget(directory, { ...target, ...load });
        const { janitor } = bench.stack;
        await runRig(rig, ["setup", "-c", written], { janitor, timeoutMs: SETUP_TIMEOUT_MS });
        path = written;
      }
      return path;
    },
    roots: () => peer.roots,
    stop: async () => await peer.stop(),
  };
}

/** Returns a function that returns the average number of cores that other programs have used since this call. */
function watchOthers(busy: readonly number[], roots: Readonly<Record<string, number>>): () => number {
  const total = (pids: readonly number[]): number =>
    Object.values(cpuSeconds(Object.fromEntries(pids.map((pid) => [String(pid), pid])))).reduce(
      (sum, seconds) => sum + seconds,
      0,
    );
  // This process's tree has Signet and, once it has ended, the rig. Peers are not its children.
  const tree = new Set(processTree(process.pid));
  const measured = [process.pid, ...Object.values(roots).filter((pid) => !tree.has(pid))];
  const read = (): number => machineCpuSeconds().busy - total(measured) + total(busy);
  const [beganMs, before] = [performance.now(), read()];
  return () => Math.max(0, ((read() - before) * 1_000) / (performance.now() - beganMs));
}

async function measure(
  { bench, rig }: Setting,
  subject: Subject,
  args: readonly string[],
): Promise<Pick<RunParts, "result" | "othersCores" | "loadAverage">> {
  const others = watchOthers(bench.busy, subject.roots());
  const { janitor } = bench.stack;
  const output = await runRig(rig, [...args, ...IDLE], { janitor, timeoutMs: RUN_TIMEOUT_MS });
  const [loadAverage = 0] = loadavg();
  return { result: parseRigResult(output), othersCores: others(), loadAverage };
}

/** One turn: starts the subject, runs all loads, each of which is passed to `record`, and stops it. */
async function takeTurn(
  setting: Setting,
  subject: Subject,
  record: (run: Omit<RunParts, "round">) => void,
): Promise<void> {
  const { bench } = setting;
  try {
    const target = await subject.start();
    for (const [index, { name, args }] of RUNS.entries()) {
      const warm = String(bench.events(index === 0 ? FIRST_WARM_UP : WARM_UP));
      const measured = await measure(setting, subject, [...args(bench), "-c", target, "-warm", warm]);
      record({ load: name, subject: subject.name, ...measured });
    }
  } finally {
    await subject.stop();
  }
}

async function takeTurns(setting: Setting, subjects: readonly Subject[], runs: PeerRun[]): Promise<void> {
  const { bench } = setting;
  for (let round = 1; round <= bench.rounds; round += 1) {
    for (const subject of subjects) {
      await takeTurn(setting, subject, (parts) => {
        const run = describeRun({ ...parts, round });
        runs.push(run);
        bench.log(peerRunLine(run));
      });
    }
  }
}

async function compare(setting: Setting, subjects: readonly Subject[]): Promise<void> {
  const { bench } = setting;
  const runs: PeerRun[] = [];
  try {
    await takeTurns(setting, subjects, runs);
  } finally {
    const summary = summarisePeers(runs);
    const versions = Object.fromEntries(subjects.map(({ name, version }) => [name, version]));
    bench.findings["peers"] = { rounds: bench.rounds, versions, ...summary, runs };
    bench.log(`\n${peersTable(summary)}`);
    // Later scenarios need them.
    await startServersBelow(bench);
  }
  const own = runs.filter(({ subject }) => subject === SIGNET);
  if (own.some(({ lost, doubled }) => lost + doubled > 0)) {
    throw new Error("Signet lost or doubled deliveries");
  }
}

async function runScenario(bench: Bench): Promise<void> {
  const { rig: source, peers: directory } = bench.peers;
  if (source === undefined || directory === undefined) {
    bench.log("left out: --rig and --peers name the load generator and the peers (docs/benchmarks.md)");
    return;
  }
  const targets = await readPeers(directory);
  if (targets.length === 0) {
    throw new Error(`${join(directory, "rig")} has no target file of a webhook sender`);
  }
  const own = join(bench.stack.directory, "peers-rig");
  await mkdir(own, { recursive: true });
  const setting: Setting = {
    bench,
    rig: await buildRig(source, own),
    directory: own,
    load: {
      sink: `127.0.0.1:${await freePort()}`,
      tenants: TENANTS,
      // New tenants for each run: the peers keep those of earlier ones.
      tenant_prefix: `b${randomBytes(4).toString("hex")}-`,
      size: PAYLOAD_BYTES,
    },
  };
  const { janitor } = bench.stack;
  const peers = targets.map((target) => new Peer(target, { peers: directory, janitor }));
  await compare(setting, [signetSubject(setting), ...peers.map((peer) => peerSubject(setting, peer))]);
}

export const peers: Scenario = {
  name: "peers",
  about:
    "Signet and other webhook senders in turns, under an independent load generator; needs --rig and --peers",
  timeoutMs: SCENARIO_TIMEOUT_MS,
  run: runScenario,
};
