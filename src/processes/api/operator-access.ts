/** Authentication of operators in the api process. */
import type { OperatorAccess } from "#api/admin/operator-guard.ts";
import { ConfigError } from "#config/config.ts";
import { loadOperatorToken } from "#crypto/service-secrets.ts";
import { hasWayToSecurity } from "#database/repositories/tokens/operators.ts";
import { OperatorAuthenticator } from "#tokens/operators/authenticate-operator.ts";
import { createRefusalAudit } from "#tokens/operators/refusal-audit.ts";
import { FailureLimiter } from "#http/rate-limits/failure-limiter.ts";
import type { ApiProcessServices } from "./services.ts";

/** Failures of one address within 5 minutes before it must wait. */
const FAILURES_MAX = 10;

/** @throws ConfigError if the bootstrap operator is off and no other security operator can sign in */
async function bootstrapToken({
  config,
  pools,
  clock,
  randomBytes,
}: ApiProcessServices): Promise<string | undefined> {
  if (config.bootstrapOperator === "on") {
    return await loadOperatorToken(config, randomBytes);
  }
  if (!(await hasWayToSecurity(pools.operator, clock.now()))) {
    throw new ConfigError([
      "SIGNET_BOOTSTRAP_OPERATOR must be on until there is an operator of role security with a token or a certificate",
    ]);
  }
  return undefined;
}

/** Creates the operators' authentication. */
export async function openOperatorAccess(services: ApiProcessServices): Promise<OperatorAccess> {
  const { pepper, clock, timers, randomBytes, log } = services;
  const { operator: pool } = services.pools;
  return {
    authenticator: new OperatorAuthenticator({
      db: pool,
      pepper,
      bootstrapToken: await bootstrapToken(services),
      clock,
    }),
    failures: new FailureLimiter({
      count: FAILURES_MAX,
      limit: "operator_failures",
      detail: "Too many failed attempts from this address.",
      monotonic: timers.monotonic,
    }),
    noteRefusal: createRefusalAudit({ pool, clock, randomBytes, log }),
  };
}
