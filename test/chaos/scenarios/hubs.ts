/** What operators do to hubs, edges and cells: other certificates, two hubs of one name, restarts in any order. */
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type Authority, createAuthority } from "#http/mutual-tls/authority.ts";
import { monotonicMs } from "#test/bench/load/monotonic.ts";
import { round } from "#test/bench/report/measurement.ts";
import type { TargetResult } from "#test/bench/report/targets.ts";
import { today, writeHubCertificates } from "#test/support/certificates.ts";
import { seededRandom } from "#test/support/seeded-random.ts";
import { longestRefusal, secondsToLasting, type Verifier } from "../admissions.ts";
import type { ChaosCase, SetScene } from "../cases.ts";
import { type Chain, CELL_SETTINGS, type Member, startChain } from "../cut-chain.ts";
import { readiness } from "../faults.ts";
import { countLedger } from "../ledger.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import { until, Watch } from "../watch.ts";
import { FAR_SECONDS, NEAR_SECONDS } from "./cuts.ts";

/** Processes look at their files every two seconds, and judge open connections at once. */
const LOADED_MS = 5_000;
const ROUNDS = { quick: 2, full: 8 } as const;
/** Longest time that a process stays ended. */
const DOWN_MS = 1_500;
const READY_POLL_MS = 50;
const READY_MS = 60_000;
const SEED = 38;

interface Told {
  readonly finding: unknown;
  readonly targets: readonly TargetResult[];
}

function boundOf(name: string): number {
  return name === "far" ? FAR_SECONDS : NEAR_SECONDS;
}

/** Ends a watch, and compares what it saw. @param seconds longest seconds without an admission, by verifier */
function tell<Name extends string>(
  what: string,
  watch: Watch<Name>,
  seconds: Readonly<Record<string, number>>,
): Told {
  const { late, asked } = watch.admitted;
  return {
    finding: { seconds, asked, admitted_late: late },
    targets: [
      atMost(`${what}: admitted late`, late, 0),
      ...Object.entries(seconds).map(([name, got]) =>
        atMost(`${what}: ${name} without an admission, s`, got, boundOf(name)),
      ),
    ],
  };
}

/** Returns what each verifier's answers come to. */
function ofEach<Name extends string>(
  { live }: Watch<Name>,
  measure: (verdicts: Watch<Name>["live"][Name]["verdicts"]) => number,
): Record<string, number> {
  return Object.fromEntries(
    Object.entries<Watch<Name>["live"][Name]>(live).map(([name, { verdicts }]) => [
      name,
      round(measure(verdicts), 2),
    ]),
  );
}

/** Watches verifiers while something is done to them, from which no pause of admissions may last. */
async function watchPauses<Name extends string>(
  scene: SetScene,
  what: string,
  verifiers: Readonly<Record<Name, Verifier>>,
  act: () => Promise<void>,
): Promise<Told> {
  const watch = await Watch.begin(scene, verifiers, what.replaceAll(" ", "-"));
  try {
    const beganMs = monotonicMs();
    await watch.revoke();
    await act();
    await watch.revoke();
    await watch.settle();
    return tell(
      what,
      watch,
      ofEach(watch, (verdicts) => longestRefusal(verdicts, beganMs)),
    );
  } finally {
    await watch.stop();
  }
}

async function withChain(
  scene: SetScene,
  run: (chain: Chain) => Promise<Readonly<Record<string, Told>>>,
): Promise<CaseOutcome> {
  const chain = await startChain(scene, join(scene.stack.directory, `${scene.world.database}-chain`));
  try {
    const told = await run(chain);
    return {
      ledger: countLedger([]),
      findings: Object.fromEntries(Object.entries(told).map(([name, { finding }]) => [name, finding])),
      targets: Object.values(told).flatMap(({ targets }) => targets),
    };
  } finally {
    await chain.close();
  }
}

async function otherAuthority(): Promise<Authority> {
  return await createAuthority({ subject: "CN=Another CA", ...today() });
}

/** The steps in which operators replace an authority (docs/edge.md), and one in which they give no time. */
async function replaceCertificates(scene: SetScene, chain: Chain): Promise<Readonly<Record<string, Told>>> {
  const { certificates, authority, verifiers } = chain;
  const [second, third] = [await otherAuthority(), await otherAuthority()];
  const write = async (issuer: Authority, ...trusted: readonly Authority[]): Promise<void> => {
    await writeHubCertificates(certificates, issuer, trusted);
    await delay(LOADED_MS);
  };
  const steps: Readonly<Record<string, () => Promise<void>>> = {
    "certificates renewed": async () => await write(authority),
    "authority trusted beside": async () => await write(authority, second),
    "certificates of another": async () => await write(second, authority),
    "authority trusted no more": async () => await write(second),
  };
  const told: Record<string, Told> = {};
  for (const [name, step] of Object.entries(steps)) {
    told[name] = await watchPauses(scene, name, verifiers, step);
  }
  // Processes load the files within two seconds of each other, and refuse each other meanwhile.
  const watch = await Watch.begin(scene, verifiers, "all-at-once");
  try {
    await watch.revoke();
    await write(third);
    const loadedMs = monotonicMs();
    await watch.revoke();
    await watch.settle();
    const seconds = ofEach(watch, (verdicts) => secondsToLasting(verdicts, loadedMs));
    return { ...told, "all at once": tell("all at once", watch, seconds) };
  } finally {
    await watch.stop();
  }
}

/** Ends one hub of a name after the other, in each way. The other one goes on. */
async function endHubsOfOneName(scene: SetScene, chain: Chain): Promise<Readonly<Record<string, Told>>> {
  const twins = [await chain.startTwin(), await chain.startTwin()];
  const verifiers = { twins: await chain.startEdge(twins) };
  const told: Record<string, Told> = {};
  for (const [number, hub] of twins.entries()) {
    const { server } = hub;
    const ends: Readonly<Record<string, () => Promise<void>>> = {
      killed: async () => await server.kill(),
      "shut down": async () => await server.end(),
    };
    for (const [how, end] of Object.entries(ends)) {
      const name = `hub ${number} of the name ${how}`;
      told[name] = await watchPauses(scene, name, verifiers, async () => {
        await end();
        await delay(DOWN_MS);
        await server.restart();
        await hub.untilReady();
      });
    }
  }
  return told;
}

function shuffled<T>(items: readonly T[], random: () => number): readonly T[] {
  return items
    .map((item) => ({ item, place: random() }))
    .toSorted((one, other) => one.place - other.place)
    .map(({ item }) => item);
}

/** Starts it, and again whenever it ends before it is ready: an edge ends if no hub answers at its start. */
async function untilUp({ name, server, metricsUrl }: Member): Promise<void> {
  const deadline = performance.now() + READY_MS;
  do {
    if (!server.isRunning) {
      await server.restart();
    }
    if (performance.now() > deadline) {
      throw new Error(`${name} is not ready`);
    }
    await delay(READY_POLL_MS);
  } while ((await readiness(metricsUrl)) !== 200);
}

/** Restarts all processes in a random order: each is killed or shut down, and starts a random time later. */
async function restartAll(
  { members }: Chain,
  random: () => number,
  onHalf: () => Promise<void>,
): Promise<void> {
  const starting: Promise<void>[] = [];
  for (const [number, member] of shuffled(members, random).entries()) {
    await (random() < 0.5 ? member.server.kill() : member.server.end());
    starting.push(delay(random() * DOWN_MS).then(async () => await untilUp(member)));
    if (number === Math.floor(members.length / 2)) {
      await onHalf();
    }
  }
  await Promise.all(starting);
}

async function restartInAnyOrder(scene: SetScene, chain: Chain): Promise<Readonly<Record<string, Told>>> {
  const told: Record<string, Told> = {};
  for (let number = 0; number < ROUNDS[scene.quick ? "quick" : "full"]; number += 1) {
    const name = `seed ${SEED + number}`;
    const watch = await Watch.begin(scene, chain.verifiers, `restarts-${number}`);
    try {
      await watch.revoke();
      await restartAll(chain, seededRandom(SEED + number), async () => await watch.revoke());
      const readyMs = monotonicMs();
      await watch.revoke();
      await watch.settle();
      told[name] = tell(
        name,
        watch,
        ofEach(watch, (verdicts) => secondsToLasting(verdicts, readyMs)),
      );
    } finally {
      await watch.stop();
    }
    await until("the next round", () => chain.members.every(({ server }) => server.isRunning));
  }
  return told;
}

export const HUBS: readonly ChaosCase[] = [
  {
    name: "hub-certificates",
    about: "certificates of hubs and edges and their authority are replaced in steps, then all at once",
    act: replaceCertificates,
  },
  {
    name: "hub-name-of-two",
    about: "two hubs behind one name end one after the other, killed and shut down",
    act: endHubsOfOneName,
  },
  {
    name: "hub-restarts",
    about: "hubs, edges and another cell are restarted in random orders, at once",
    act: restartInAnyOrder,
  },
].map(({ name, about, act }) => ({
  name,
  about,
  setting: { settings: CELL_SETTINGS },
  run: async (scene) => await withChain(scene, async (chain) => await act(scene, chain)),
}));
