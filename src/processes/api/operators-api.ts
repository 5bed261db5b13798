/** Wires the operators' API and its console. */
import { createAdmin } from "#api/admin/app.ts";
import { createCommitChange } from "#api/admin/audited.ts";
import type { OperatorAccess } from "#api/admin/operator-guard.ts";
import type { AdminServices } from "#api/admin/services.ts";
import { rotationRules } from "#config/rotation-settings.ts";
import { FruitlessLookups } from "#http/rate-limits/fruitless-lookups.ts";
import type { SignetServer } from "#http/types.ts";
import { createConsoleGuard, registerConsole } from "#portal/operator/console.ts";
import { CHECK_TIMEOUT_MS, checkNamespace } from "#temporal/client.ts";
import { findPause } from "#temporal/open-workflow.ts";
import { OperatorSessions } from "#tokens/operators/operator-sessions.ts";
import type { DeliveryStreams } from "#webhooks/engine/delivery-streams.ts";
import { keyAlgorithms } from "../signing-keys.ts";
import { openOperatorAccess } from "./operator-access.ts";
import type { ApiProcessServices } from "./services.ts";

export interface OperatorsApiServices extends Pick<AdminServices, "clients"> {
  /** The public API, which the console's pages call. */
  readonly api: SignetServer;
  readonly streams: DeliveryStreams;
}

/** Returns the function that creates the console. */
function createConsole(
  { config, pools, calls, brands, temporalUi: temporal, clock, timers, randomBytes }: ApiProcessServices,
  { api, streams }: OperatorsApiServices,
  access: OperatorAccess,
): NonNullable<AdminServices["console"]> {
  const operators = new OperatorSessions({
    pool: pools.operator,
    authenticator: access.authenticator,
    lookups: new FruitlessLookups(config.tokenRatePerAddress, timers.monotonic),
    clock,
    randomBytes,
  });
  return (services, overview, operatorCalls) => {
    const options = {
      operators,
      access,
      api: () => api,
      calls,
      operatorCalls,
      overview,
      services,
      streaming: { streams, clock, timers },
      headerBrand: config.headerBrand,
      // Operators change no endpoint, so no form checks a URL.
      urlProblem: () => undefined,
      brands,
      frameOrigins: [],
      temporal,
      development: config.development,
    };
    return {
      guard: createConsoleGuard(options),
      register: async (server) => await registerConsole(server, options),
    };
  };
}

/** Builds the operators' API without listening. */
export async function createOperatorsApi(
  services: ApiProcessServices,
  parts: OperatorsApiServices,
): Promise<SignetServer> {
  const { config, pools, pepper, keyring, receipts, temporal, clock, timers, randomBytes, log } = services;
  const access = await openOperatorAccess(services);
  const { operator: pool } = pools;
  const revocation = { receipts, keyring, clock, randomBytes, deadLetterMs: config.deadLetterMs };
  return await createAdmin({
    baseUrl: config.publicUrl,
    cells: services.cells,
    access,
    console: createConsole(services, parts, access),
    clients: parts.clients,
    bootstrap: config.bootstrapOperator === "on",
    pool,
    tenantPool: pools.api,
    auditPool: pools.audit,
    checkTemporal: async () => await checkNamespace(temporal),
    findPause: async (workflowId) =>
      await temporal.withDeadline(
        Date.now() + CHECK_TIMEOUT_MS,
        async () => await findPause(temporal, workflowId),
      ),
    commit: createCommitChange({ pool, pepper, revocation, clock, randomBytes, log }),
    certificatesRequired: config.mtlsMode !== "off",
    assertionAlgorithms: config.clientAssertionAlgs,
    rotationRules: rotationRules(config),
    limitDefaults: config,
    algs: keyAlgorithms(config),
    keyring,
    pepper,
    readAudit: services.readAudit,
    revocation,
    clock,
    timers,
    randomBytes,
    log,
  });
}
