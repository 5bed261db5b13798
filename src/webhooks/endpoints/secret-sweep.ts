/** Erases secrets that are over and writes down what their times have made of the others; nothing waits for it. */
import type { Queryable } from "../../database/pool.ts";
import { findDueMoves } from "../../database/repositories/endpoints/endpoint-secrets.ts";
import { eachDue, type RoundOptions } from "./each-due.ts";
import { type EndpointPlace, type EndpointSecretServices, settleSecrets } from "./endpoint-secrets.ts";

export type SecretSweepOptions = EndpointSecretServices & RoundOptions;

/** One round; may run beside itself. Resolves with the number of endpoints whose secrets have moved on. */
export async function sweepSecrets(options: SecretSweepOptions): Promise<number> {
  const step = async (db: Queryable, place: EndpointPlace) => await settleSecrets(db, place, options);
  return await eachDue(
    findDueMoves,
    { step, failure: "an endpoint's secrets could not be moved on" },
    options,
  );
}
