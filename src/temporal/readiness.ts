/** Readiness of Temporal for this process: the namespace answers, and workflows with Signet's attributes can start. */
import { type Client, isGrpcServiceError } from "@temporalio/client";
import { SignetError } from "#domain/errors.ts";
import type { ReadinessCheck } from "#runtime/readiness.ts";
import { callDeadline, checkNamespace } from "./client.ts";
import { unqueryable } from "./namespace.ts";

/** How long a result is reused, in milliseconds. Temporal Cloud limits queries to 30 a second for all processes. */
const FRESH_MS = 10_000;
/** Below the limit of a check. */
const QUERY_MS = 1_500;

/**
 * Checks the search attributes. Without one of them no workflow starts. Passes if visibility does not answer: starts do
 * not need it.
 *
 * @throws SignetError `UNAVAILABLE` with the names of those that are missing
 */
async function checkSearchAttributes(client: Client): Promise<void> {
  const { namespace } = client.options;
  const missing = await client
    .withDeadline(callDeadline(QUERY_MS), async () => await unqueryable(client, namespace))
    .catch((error: unknown) => {
      if (isGrpcServiceError(error)) {
        return [];
      }
      throw error;
    });
  if (missing.length > 0) {
    throw new SignetError("UNAVAILABLE", {
      detail: `Temporal namespace ${namespace} has no search attribute ${missing.join(", ")}: run \`signet migrate\`, which adds what is missing`,
    });
  }
}

/** Creates the check. What it finds about search attributes is reused for ten seconds. */
export function temporalReadiness(client: Client, monotonic: () => number): ReadinessCheck {
  let found: Promise<unknown> | undefined;
  let askedAt = 0;
  return {
    name: "temporal",
    check: async () => {
      await checkNamespace(client);
      if (found === undefined || monotonic() - askedAt >= FRESH_MS) {
        askedAt = monotonic();
        found = checkSearchAttributes(client);
      }
      await found;
    },
  };
}
