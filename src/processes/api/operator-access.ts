/** Authentication of operators in the api process. */
import type { RandomBytes } from "#domain/ids.ts";
import type { OperatorAccess } from "#api/admin/operator-guard.ts";
import { type Config, ConfigError } from "#config/config.ts";
import type { Pepper } from "#crypto/pepper.ts";
import { loadOperatorToken } from "#crypto/service-secrets.ts";
import type { Pool } from "#database/pool.ts";
import { hasWayToSecurity } from "#database/repositories/tokens/operators.ts";
import type { Clock } from "#domain/clock.ts";
import { machineTimers } from "#runtime/machine-timers.ts";
import type { Logger } from "#observability/logger.ts";
import { OperatorAuthenticator } from "#tokens/operators/authenticate-operator.ts";
import { createRefusalAudit } from "#tokens/operators/refusal-audit.ts";
import { FailureLimiter } from "#http/rate-limits/failure-limiter.ts";

/** Failures of one address within 5 minutes before it must wait. */
const FAILURES_MAX = 10;

interface OperatorAccessServices {
  readonly config: Config;
  /** Role signet_operator. */
  readonly pool: Pool;
  readonly pepper: Pepper;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
}

/** @throws ConfigError if the bootstrap operator is off and no other security operator can sign in */
async function bootstrapToken({
  config,
  pool,
  clock,
  randomBytes,
}: OperatorAccessServices): Promise<string | undefined> {
  if (config.bootstrapOperator === "on") {
    return await loadOperatorToken(config, randomBytes);
  }
  if (!(await hasWayToSecurity(pool, clock.now()))) {
    throw new ConfigError([
      "SIGNET_BOOTSTRAP_OPERATOR must be on until there is an operator of role security with a token or a certificate",
    ]);
  }
  return undefined;
}

/** Creates the operators' authentication. */
export async function openOperatorAccess(parts: OperatorAccessServices): Promise<OperatorAccess> {
  const { pool, pepper, clock, randomBytes, log } = parts;
  return {
    authenticator: new OperatorAuthenticator({
      db: pool,
      pepper,
      bootstrapToken: await bootstrapToken(parts),
      clock,
    }),
    failures: new FailureLimiter({
      count: FAILURES_MAX,
      limit: "operator_failures",
      detail: "Too many failed attempts from this address.",
      monotonic: machineTimers.monotonic,
    }),
    noteRefusal: createRefusalAudit({ pool, clock, randomBytes, log }),
  };
}
