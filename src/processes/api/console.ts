/** Wires the operators' console. */
import type { OperatorAccess } from "#api/admin/operator-guard.ts";
import type { AdminServices } from "#api/admin/services.ts";
import type { InProcessCalls } from "#api/in-process.ts";
import type { Config } from "#config/config.ts";
import { machineTimers } from "#runtime/machine-timers.ts";
import { FruitlessLookups } from "#http/rate-limits/fruitless-lookups.ts";
import type { SignetServer } from "#http/types.ts";
import { createConsoleGuard, registerConsole } from "#portal/operator/console.ts";
import type { PortalBrands } from "#portal/brand.ts";
import { OperatorSessions } from "#tokens/operators/operator-sessions.ts";
import type { TemporalUi } from "#temporal/views.ts";
import type { DeliveryStreams } from "#webhooks/engine/delivery-streams.ts";

export interface ConsoleServices extends Pick<
  AdminServices,
  "pool" | "tenantPool" | "readAudit" | "checkTemporal" | "findPause" | "clock" | "randomBytes"
> {
  readonly config: Config;
  readonly access: OperatorAccess;
  /** The public API, which the pages call. */
  readonly api: SignetServer;
  readonly calls: InProcessCalls;
  readonly streams: DeliveryStreams;
  readonly brands: PortalBrands;
  readonly temporalUi: TemporalUi;
}

/** Returns the function that creates the console. */
export function createConsole(parts: ConsoleServices): NonNullable<AdminServices["console"]> {
  const { config, access, api, calls, streams, temporalUi, pool, clock, randomBytes } = parts;
  const operators = new OperatorSessions({
    pool,
    authenticator: access.authenticator,
    lookups: new FruitlessLookups(config.tokenRatePerAddress, machineTimers.monotonic),
    clock,
    randomBytes,
  });
  return (overview, operatorCalls) => {
    const options = {
      operators,
      access,
      api: () => api,
      calls,
      operatorCalls,
      overview,
      services: parts,
      streaming: { streams, clock, timers: machineTimers },
      headerBrand: config.headerBrand,
      // Operators change no endpoint, so no form checks a URL.
      urlProblem: () => undefined,
      brands: parts.brands,
      frameOrigins: [],
      temporal: temporalUi,
      development: config.development,
    };
    return {
      guard: createConsoleGuard(options),
      register: async (server) => await registerConsole(server, options),
    };
  };
}
