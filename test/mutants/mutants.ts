/** The faults that `npm run test:mutants` makes, one at a time. Add one for each defect that is found outside. */
import { CHANGES } from "./changes.ts";
import { CLONE } from "./clone.ts";
import { DELIVERIES } from "./deliveries.ts";
import { DISPATCH } from "./dispatch.ts";
import { GROWTH } from "./growth.ts";
import type { Mutant } from "./mutant.ts";
import { NEIGHBOURS } from "./neighbours.ts";
import { NUMBERS } from "./numbers.ts";
import { OUTCOMES } from "./outcomes.ts";
import { OUTSIDERS } from "./outsiders.ts";
import { RECEIVERS } from "./receivers.ts";
import { RECORDS } from "./records.ts";
import { SENT } from "./sent.ts";
import { TEMPORAL } from "./temporal.ts";
import { TOKENS } from "./tokens.ts";

export const MUTANTS: readonly Mutant[] = [
  ...OUTSIDERS,
  ...TOKENS,
  ...CHANGES,
  ...DELIVERIES,
  ...DISPATCH,
  ...TEMPORAL,
  ...NUMBERS,
  ...RECEIVERS,
  ...RECORDS,
  ...GROWTH,
  ...NEIGHBOURS,
  ...SENT,
  ...OUTCOMES,
  ...CLONE,
];
