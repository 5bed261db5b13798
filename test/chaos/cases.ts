/** What goes wrong in the middle of the events, and what must come of it. */
import type { Behaviour } from "../bench/load/behaviour.ts";

export type VictimName = "api" | "worker" | "temporal" | "postgres";

/** A fault of ours, in the middle of publishing. */
export type Fault =
  /** SIGKILL; started again a second later. */
  | { readonly kind: "kill"; readonly victim: VictimName }
  /** SIGSTOP for a while. */
  | { readonly kind: "stop"; readonly victim: "api" | "worker" };

/** An endpoint with bad manners. */
export interface HostileEndpoint {
  readonly behaviour: Behaviour;
  /** Requests that each of its events takes when nothing else goes wrong. */
  readonly requests: number;
}

export interface ChaosCase {
  readonly name: string;
  readonly about: string;
  readonly pace: "steady" | "saturation";
  readonly faults: readonly Fault[];
  readonly hostile: readonly HostileEndpoint[];
  /** Within so many seconds of a restart deliveries flow again. */
  readonly flowSeconds: number;
}

/** Svix took 45 s, Outpost up to 6 s, Convoy 100 s. */
const OWN_FLOW_SECONDS = 10;
const TEMPORAL_FLOW_SECONDS = 45;

/** Resets, hangs, answers just within and just beyond the sender's limit of 10 s. */
const HOSTILE: readonly HostileEndpoint[] = [
  { behaviour: { kind: "reset", attempts: 1 }, requests: 2 },
  { behaviour: { kind: "hang", attempts: 1 }, requests: 2 },
  { behaviour: { kind: "delay", ms: 9_900 }, requests: 1 },
  { behaviour: { kind: "delay", ms: 10_100, attempts: 1 }, requests: 2 },
];

const PACES = ["steady", "saturation"] as const;
const PACE_NAMES = { steady: "200", saturation: "saturation" } as const;
const PACE_WORDS = { steady: "at 200/s", saturation: "at saturation" } as const;

const VICTIMS: readonly (readonly [VictimName, string])[] = [
  ["worker", "the worker"],
  ["api", "the api"],
  ["temporal", "Temporal"],
  ["postgres", "PostgreSQL"],
];

function kills(): ChaosCase[] {
  return VICTIMS.flatMap(([victim, words]) =>
    PACES.map((pace) => ({
      name: `kill-${victim}-${PACE_NAMES[pace]}`,
      about: `kill -9 of ${words} ${PACE_WORDS[pace]}, started again after 1 s`,
      pace,
      faults: [{ kind: "kill" as const, victim }],
      hostile: [],
      flowSeconds: victim === "temporal" ? TEMPORAL_FLOW_SECONDS : OWN_FLOW_SECONDS,
    })),
  );
}

function stops(): ChaosCase[] {
  return (["worker", "api"] as const).flatMap((victim) =>
    PACES.map((pace) => ({
      name: `stop-${victim}-${PACE_NAMES[pace]}`,
      about: `SIGSTOP of the ${victim} for 15 s ${PACE_WORDS[pace]}`,
      pace,
      faults: [{ kind: "stop" as const, victim }],
      hostile: [],
      flowSeconds: OWN_FLOW_SECONDS,
    })),
  );
}

function receivers(): ChaosCase[] {
  return PACES.map((pace) => ({
    name: `receivers-${PACE_NAMES[pace]}`,
    about: `receivers that reset, hang, answer after 9.9 s and after 10.1 s beside healthy ones, ${PACE_WORDS[pace]}`,
    pace,
    faults: [],
    hostile: HOSTILE,
    flowSeconds: OWN_FLOW_SECONDS,
  }));
}

export const CASES: readonly ChaosCase[] = [...kills(), ...stops(), ...receivers()];

/** What `npm test` runs. */
export const SHORT_CASE: ChaosCase = {
  name: "short",
  about: "kill -9 of the worker, then of PostgreSQL, with hostile receivers",
  pace: "steady",
  faults: [
    { kind: "kill", victim: "worker" },
    { kind: "kill", victim: "postgres" },
  ],
  hostile: HOSTILE,
  flowSeconds: OWN_FLOW_SECONDS,
};
