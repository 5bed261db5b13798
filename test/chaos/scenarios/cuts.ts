/** Cuts of every kind, on every link between what admits tokens and the home cell's PostgreSQL. */
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { monotonicMs } from "#test/bench/load/monotonic.ts";
import { round } from "#test/bench/report/measurement.ts";
import type { TargetResult } from "#test/bench/report/targets.ts";
import { CUT_KINDS, type CutKind } from "#test/support/cut-proxy.ts";
import { type Admissions, secondsToLasting, secondsToRefusal } from "../admissions.ts";
import type { ChaosCase } from "../cases.ts";
import {
  type Chain,
  CELL_SETTINGS,
  type LinkName,
  LINKS,
  startChain,
  type VerifierName,
  VERIFIERS,
} from "../cut-chain.ts";
import { countLedger } from "../ledger.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import type { Scene } from "../trial.ts";
import { Watch } from "../watch.ts";

const SECONDS = [1, 10, 120] as const;
/** From the end of a cut to the first 200 that lasts (docs/runbook.md, A region is cut off). */
export const NEAR_SECONDS = 1;
export const FAR_SECONDS = 2;
/** From the beginning of a cut to the first 503, if there is one. */
const REFUSED_SECONDS = 0.5;
/** Of these, only some connections or packets suffer, so some answers are still 200. */
const PARTIAL: ReadonlySet<CutKind> = new Set(["half-open", "loss"]);

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
  const watch = await Watch.begin(scene, chain.verifiers, `${kind}-${link}-${seconds}`);
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
          return atMost(`${name}: ${chain.verifiers[each].name} admits after s`, again[each] ?? 0, bound);
        }),
        ...(PARTIAL.has(kind) ? [] : behind).map((each) =>
          atMost(
            `${name}: ${chain.verifiers[each].name} refuses after s`,
            refused[each] ?? 0,
            REFUSED_SECONDS,
          ),
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
