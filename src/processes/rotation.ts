/** Wires the token endpoint's part of the rotation of client secrets. */
import { randomBytes } from "node:crypto";
import type { Config } from "#config/config.ts";
import { poolAccess } from "#config/database-settings.ts";
import { createRotationLog } from "#tokens/credentials/rotation-log.ts";
import { RotationNotices } from "#tokens/credentials/rotation-notices.ts";
import { TokenRotationService } from "#tokens/credentials/rotation.ts";
import type { Pepper } from "#crypto/pepper.ts";
import { createPool, type Pool } from "#database/pool.ts";
import type { ClientRecord, SecretVersionRecord } from "#database/repositories/tokens/clients.ts";
import type { Clock } from "#domain/clock.ts";
import type { Logger } from "#observability/logger.ts";
import { rotationRules } from "#config/rotation-settings.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

/** Rotations are rare, and none holds a connection for long. */
const CONNECTIONS_MAX = 4;

export interface RotationServices {
  readonly config: Config & { readonly databaseUrl: string };
  readonly pepper: Pepper;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Opens the pool of the role that advances secret versions. */
export function openRotatorPool({ config, log }: Pick<RotationServices, "config" | "log">): Pool {
  const max = Math.min(CONNECTIONS_MAX, config.databaseConnections);
  return createPool({ ...poolAccess(config), role: "signet_rotator", max, log });
}

/** Creates the rotation as the token endpoint uses it, with its own pool. */
export function createTokenRotation(parts: RotationServices) {
  const { config, pepper, clock, log } = parts;
  const sources = { clock, randomBytes };
  const pool = openRotatorPool(parts);
  const append = createRotationLog("client", sources);
  const notices = new RotationNotices({ pool, clock, timers: machineTimers, append, log });
  const rules = rotationRules(config);
  return {
    rotation: new TokenRotationService({ ...sources, pool, pepper, rules, notices, append, log }),
    onRetiredSecret: (
      { tenant_id: tenantId, credential_id: credentialId }: ClientRecord,
      { version }: SecretVersionRecord,
    ) => notices.late("misuse", { tenant_id: tenantId, credential_id: credentialId, version }),
    /** Writes pending observations and closes the pool. */
    close: async (): Promise<void> => {
      await notices.close();
      await pool.end();
    },
  };
}
