/** Every scenario, in running order. Scenarios that leave work behind have their own worlds and run last. */
import type { Scenario } from "./bench.ts";
import { capacity } from "./capacity.ts";
import { coldEdge } from "./cold-edge.ts";
import { compliance } from "./compliance.ts";
import { deadLetters } from "./dead-letters.ts";
import { endpoints } from "./endpoints.ts";
import { edge } from "./edge.ts";
import { egress } from "./egress.ts";
import { failingReceiver } from "./failing-receiver.ts";
import { growth } from "./growth/growth.ts";
import { hostile } from "./hostile.ts";
import { largeBodies } from "./large-bodies.ts";
import { memory } from "./memory.ts";
import { noisyNeighbour, wideNeighbour } from "./noisy-neighbour.ts";
import { openDeadLetters } from "./open-dead-letters.ts";
import { overview } from "./overview.ts";
import { packages } from "./packages.ts";
import { peers } from "./peers.ts";
import { portal } from "./portal.ts";
import { borders } from "./borders.ts";
import { revocation } from "./revocation.ts";
import { rotation } from "./rotation.ts";
import { saturation } from "./saturation.ts";
import { ssf } from "./ssf.ts";
import { steady } from "./steady.ts";
import { tokens } from "./tokens.ts";
import { verification } from "./verification.ts";

export const SCENARIOS: readonly Scenario[] = [
  ...steady,
  ...saturation,
  largeBodies,
  memory,
  tokens,
  edge,
  egress,
  compliance,
  revocation,
  borders,
  coldEdge,
  ssf,
  rotation,
  verification,
  endpoints,
  capacity,
  growth,
  deadLetters,
  openDeadLetters,
  portal,
  overview,
  noisyNeighbour,
  wideNeighbour,
  hostile,
  failingReceiver,
  packages,
  peers,
];
