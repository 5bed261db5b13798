/** Cuts of every kind, on every link between what admits tokens and the home cell's PostgreSQL. */
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import {
  accessToken,
  type NewTenant,
  provisionTenant,
  requestJson,
} from "../../bench/environment/provision.ts";
import { monotonicMs } from "../../bench/load/monotonic.ts";
import { round } from "../../bench/report/measurement.ts";
import type { TargetResult } from "../../bench/report/targets.ts";
import { CUT_KINDS, type CutKind } from "../../support/cut-proxy.ts";
import {
  type Admissions,
  admittedLate,
  askLive,
  askRevoked,
  secondsToLasting,
  secondsToRefusal,
  type Verifier,
} from "../admissions.ts";
import type { ChaosCase } from "../cases.ts";
import { type Chain, CELL_SETTINGS, CHAIN_REGION, type LinkName, LINKS, startChain } from "../cut-chain.ts";
import { countLedger } from "../ledger.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import type { Scene } from "../trial.ts";

const SECONDS = [1, 10, 120] as const;
/** From the end of a cut to the first 200 that lasts (docs/runbook.md, A region is cut off). */
const NEAR_SECONDS = 1;
const FAR_SECONDS = 2;
/** From the beginning of a cut to the first 503, if there is one. */
const REFUSED_SECONDS = 0.5;
/** Of these, only some connections or packets suffer, so some answers are still 200. */
const PARTIAL: ReadonlySet<CutKind> = new Set(["half-open", "loss"]);
/** What must last. */
const LASTING_MS = 2_000;
const GIVE_UP_MS = 20_000;
const POLL_MS = 50;

type VerifierName = "cell" | "direct" | "near" | "far";
const VERIFIERS = ["cell", "direct", "near", "far"] as const;

/** Which verifiers a link leads to. */
const BEHIND: Readonly<Record<LinkName, readonly VerifierName[]>> = {
  "cell-postgres": ["cell"],
  "hub-postgres": ["near", "far"],
  "hub-hub": ["far"],
  "edge-hub": ["near", "far"],
  "edge-postgres": ["direct"],
};

export interface Cut {
  readonly kind: CutKind;
  readonly link: LinkName;
  readonly seconds: number;
}

interface Holder {
  readonly client: NewTenant;
  readonly token: string;
}

async function holder({ world }: Scene, name: string): Promise<Holder> {
  const client = await provisionTenant(world.signet, world.operatorToken, name, CHAIN_REGION);
  return { client, token: await accessToken(world.signet, client) };
}

/** Revokes a credential. @returns when that was answered */
async function revoke({ world }: Scene, { client }: Holder): Promise<number> {
  const url = `${world.signet.adminUrl}/credentials/${client.credentialId}/revoke`;
  await requestJson("POST", url, world.operatorToken, { reason: "compromised" });
  return monotonicMs();
}

async function until(what: string, holds: () => boolean): Promise<void> {
  const deadline = performance.now() + GIVE_UP_MS;
  while (!holds()) {
    if (performance.now() > deadline) {
      throw new Error(`timed out before ${what}`);
    }
    await delay(POLL_MS);
  }
}

const isLasting = ({ verdicts }: Admissions): boolean => {
  const last = verdicts.at(-1);
  const refused = verdicts.findLast(({ status }) => status !== 200);
  return last !== undefined && last.sentMs - (refused?.answeredMs ?? verdicts[0]?.sentMs ?? 0) > LASTING_MS;
};

interface Revoked {
  readonly atMs: number;
  readonly asked: readonly Admissions[];
}

/** Requests to every verifier, with a token that stays valid and with three that are revoked. */
class Watch {
  readonly live: Readonly<Record<VerifierName, Admissions>>;
  readonly #victims: { readonly holder: Holder; readonly asked: readonly Admissions[] }[];
  readonly #revoked: Revoked[] = [];
  readonly #scene: Scene;

  constructor(scene: Scene, chain: Chain, [valid, ...victims]: readonly [Holder, ...Holder[]]) {
    this.#scene = scene;
    const to = (name: VerifierName): Verifier => chain[name];
    this.live = Object.fromEntries(
      VERIFIERS.map((name) => [name, askLive(to(name), valid.token)]),
    ) as Watch["live"];
    this.#victims = victims.map((victim) => ({
      holder: victim,
      asked: VERIFIERS.map((name) => askRevoked(to(name), victim.token)),
    }));
  }

  static async begin(scene: Scene, chain: Chain, name: string): Promise<Watch> {
    const holders: Holder[] = [];
    for (const part of ["valid", "first", "second", "third"]) {
      holders.push(await holder(scene, `${name}-${part}`));
    }
    const watch = new Watch(scene, chain, holders as [Holder, ...Holder[]]);
    await until("every verifier admits", () => watch.#all.every(isLasting));
    return watch;
  }

  get #all(): readonly Admissions[] {
    return [...Object.values(this.live), ...this.#victims.flatMap(({ asked }) => asked)];
  }

  /** Revokes the next one. */
  async revoke(): Promise<void> {
    const victim = this.#victims.shift();
    if (victim !== undefined) {
      this.#revoked.push({ atMs: await revoke(this.#scene, victim.holder), asked: victim.asked });
    }
  }

  /** Waits until every verifier admits what is valid, and refuses what is revoked. */
  async settle(): Promise<void> {
    await until("every verifier admits again", () => Object.values(this.live).every(isLasting)).catch(
      () => undefined, // The seconds tell it.
    );
    await until("every verifier knows the revocations", () =>
      this.#revoked.every(({ asked }) => asked.every(({ verdicts }) => verdicts.at(-1)?.status === 401)),
    );
    await Promise.all(
      [...Object.values(this.live), ...this.#revoked.flatMap(({ asked }) => asked)].map(
        async (asked) => await asked.stop(),
      ),
    );
  }

  async stop(): Promise<void> {
    await Promise.all(this.#all.map(async (asked) => await asked.stop()));
    await Promise.all(this.#revoked.flatMap(({ asked }) => asked).map(async (asked) => await asked.stop()));
  }

  /** Number of admissions after the bound, and of requests with revoked tokens. */
  get admitted(): { readonly late: number; readonly asked: number } {
    let [late, all] = [0, 0];
    for (const { atMs, asked } of this.#revoked) {
      for (const { verdicts } of asked) {
        late += admittedLate(verdicts, atMs);
        all += verdicts.filter(({ sentMs }) => sentMs > atMs).length;
      }
    }
    return { late, asked: all };
  }
}

interface CutResult {
  readonly finding: {
    /** From the end of the cut to the first 200 that lasts, of what is behind the link. */
    readonly again_s: Readonly<Record<string, number>>;
    /** From its beginning to the first refusal, if there is one. */
    readonly refused_s: Readonly<Record<string, number | undefined>>;
    /** Refusals of the others meanwhile. */
    readonly others_refused: Readonly<Record<string, number>>;
    /** Requests with revoked tokens, and those of them that were admitted too late. */
    readonly asked: number;
    readonly admitted_late: number;
  };
  readonly targets: readonly TargetResult[];
}

/** Cuts a link once. */
export async function cutOnce(scene: Scene, chain: Chain, { kind, link, seconds }: Cut): Promise<CutResult> {
  const name = `${kind} ${link} ${seconds} s`;
  const networks = chain.links[link];
  const watch = await Watch.begin(scene, chain, `${kind}-${link}-${seconds}`);
  try {
    const beganMs = monotonicMs();
    networks.forEach((network) => network.begin(kind));
    // One revocation races with the cut, one meets it, and one races with its end.
    await watch.revoke();
    await delay(Math.max(0, seconds * 500 - (monotonicMs() - beganMs)));
    await watch.revoke();
    await delay(Math.max(0, seconds * 1_000 - (monotonicMs() - beganMs)));
    const endedMs = monotonicMs();
    networks.forEach((network) => network.end());
    await watch.revoke();
    await watch.settle();
    const { late, asked } = watch.admitted;
    const behind = BEHIND[link];
    const of = <T>(names: readonly VerifierName[], tell: (asked: Admissions) => T) =>
      Object.fromEntries(names.map((each) => [each, tell(watch.live[each])]));
    const again = of(behind, ({ verdicts }) => round(secondsToLasting(verdicts, endedMs), 2));
    const refused = of(behind, ({ verdicts }) => {
      const after = secondsToRefusal(verdicts, beganMs);
      return after === undefined ? undefined : round(after, 2);
    });
    const others = VERIFIERS.filter((each) => !behind.includes(each));
    const blips = of(
      others,
      ({ verdicts }) => verdicts.filter(({ status, sentMs }) => status !== 200 && sentMs >= beganMs).length,
    );
    return {
      finding: { again_s: again, refused_s: refused, others_refused: blips, asked, admitted_late: late },
      targets: [
        atMost(`${name}: admitted late`, late, 0),
        ...behind.map((each) => {
          const bound = each === "far" ? FAR_SECONDS : NEAR_SECONDS;
          return atMost(`${name}: ${chain[each].name} admits after s`, again[each] ?? 0, bound);
        }),
        ...(PARTIAL.has(kind) ? [] : behind).map((each) =>
          atMost(`${name}: ${chain[each].name} refuses after s`, refused[each] ?? 0, REFUSED_SECONDS),
        ),
      ],
    };
  } finally {
    await watch.stop();
  }
}

/** Starts a chain, and cuts one link after the other. */
async function runCuts(scene: Scene, cuts: readonly Cut[]): Promise<CaseOutcome> {
  const chain = await startChain(scene, join(scene.stack.directory, `${scene.world.database}-chain`));
  try {
    const results: Record<string, CutResult> = {};
    for (const cut of cuts) {
      results[`${cut.kind} ${cut.link} ${cut.seconds} s`] = await cutOnce(scene, chain, cut);
    }
    return {
      ledger: countLedger([]),
      findings: Object.fromEntries(Object.entries(results).map(([name, { finding }]) => [name, finding])),
      targets: Object.values(results).flatMap(({ targets }) => targets),
    };
  } finally {
    await chain.close();
  }
}

/** A case for each kind and duration, which cuts each link. */
export const CUTS: readonly ChaosCase[] = CUT_KINDS.flatMap((kind) =>
  SECONDS.map((seconds) => ({
    name: `cut-${kind}-${seconds}s`,
    about: `${kind} cuts of ${seconds} s between cells, hubs, edges and PostgreSQL, one link after the other`,
    setting: { settings: CELL_SETTINGS },
    run: async (scene) =>
      await runCuts(
        scene,
        LINKS.map((link) => ({ kind, link, seconds })),
      ),
  })),
);
