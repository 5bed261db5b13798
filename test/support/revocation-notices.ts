/** What a worker does after revocations and at the ends of credentials, for tests that run it themselves. */
import { randomBytes } from "node:crypto";
import { loadConfig } from "#config/config.ts";
import { rotationRules } from "#config/rotation-settings.ts";
import { loadServiceSecrets } from "#crypto/service-secrets.ts";
import { createPool, type Pool, type ServiceRole } from "#database/pool.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import { createLogger } from "#observability/logger.ts";
import { sweepRotation } from "#tokens/credentials/rotation-sweep.ts";
import { publishRevocationNotices } from "#webhooks/revocation-notices.ts";
import type { TestApi } from "./api.ts";

const log = createLogger({ level: "silent" });

async function withPool<T>(
  { database }: Pick<TestApi, "database">,
  role: ServiceRole,
  work: (pool: Pool) => Promise<T>,
): Promise<T> {
  const pool = createPool({ url: database.url, role, max: 2, log });
  try {
    return await work(pool);
  } finally {
    await pool.end();
  }
}

/** Returns a function that publishes the events of all revocations and ends so far, with keys of its own. */
export async function openTelling(
  api: Pick<TestApi, "database" | "environment">,
): Promise<() => Promise<void>> {
  const config = loadConfig(api.environment);
  const { keyring } = await loadServiceSecrets(config, randomBytes, machineTimers);
  const { deadLetterMs } = config;
  const sources = { keyring, clock: systemClock, randomBytes, deadLetterMs, onlyIfTaken: false };
  return async () =>
    await withPool(
      api,
      "signet_operator",
      async (pool) => await publishRevocationNotices({ ...sources, pool }),
    );
}

/** Publishes the events of all revocations and ends so far. */
export async function tellOfRevocations(api: Pick<TestApi, "database" | "environment">): Promise<void> {
  const tell = await openTelling(api);
  await tell();
}

/** Runs the sweep of the rotation at the api's time. Returns how many replaced credentials it has ended. */
export async function sweepCredentials(
  api: Pick<TestApi, "database" | "environment" | "clock">,
): Promise<number> {
  const rules = rotationRules(loadConfig(api.environment));
  const { clock } = api;
  return await withPool(
    api,
    "signet_rotator",
    async (pool) => (await sweepRotation({ pool, rules, clock, randomBytes, log })).ended,
  );
}
