/** Every scenario, in the order they run: those that leave work behind have worlds of their own and come last. */
import type { Scenario } from "./bench.ts";
import { failingReceiver } from "./failing-receiver.ts";
import { fanOut } from "./fan-out.ts";
import { features } from "./features.ts";
import { memory } from "./memory.ts";
import { million } from "./million.ts";
import { noisyNeighbour } from "./noisy-neighbour.ts";
import { saturation } from "./saturation.ts";
import { frontier, steady } from "./steady.ts";
import { tokens } from "./tokens.ts";

export const SCENARIOS: readonly Scenario[] = [
  ...steady,
  ...saturation,
  fanOut,
  memory,
  frontier,
  features,
  tokens,
  million,
  noisyNeighbour,
  failingReceiver,
];

function matching(wanted: string): readonly Scenario[] {
  const exact = SCENARIOS.filter(({ name }) => name === wanted);
  const found = exact.length > 0 ? exact : SCENARIOS.filter(({ name }) => name.startsWith(wanted));
  if (found.length === 0) {
    throw new Error(`no scenario begins with ${wanted}; --list shows them`);
  }
  return found;
}

/** Those with one of the names, else those that begin with it; all when none is wanted. */
export function chooseScenarios(wanted: readonly string[]): readonly Scenario[] {
  const chosen = new Set(wanted.flatMap(matching));
  return wanted.length === 0 ? SCENARIOS : SCENARIOS.filter((scenario) => chosen.has(scenario));
}
