/** Faults that delete databases, or restore older copies of them. */
import { setTimeout as delay } from "node:timers/promises";
import { Connection } from "@temporalio/client";
import { withClient } from "../bench/environment/postgres.ts";
import { monotonicMs } from "../bench/load/monotonic.ts";
import { type Fault, type PassedFault, victimOf, victimsOf } from "./faults.ts";
import type { Scene, Trial } from "./trial.ts";

/** Early enough that a one-minute fault ends before the events do. */
const EARLY = 0.15;

function copyOf(database: string): string {
  return `${database}_copy`;
}

/** Copies a database. Connections are refused meanwhile, so the copy is consistent. */
async function copyDatabase(adminUrl: string, database: string): Promise<void> {
  await withClient(adminUrl, async (client) => {
    await client.query(`ALTER DATABASE ${database} WITH ALLOW_CONNECTIONS false`);
    await client.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", [
      database,
    ]);
    await client.query(`DROP DATABASE IF EXISTS ${copyOf(database)} WITH (FORCE)`);
    await client.query(`CREATE DATABASE ${copyOf(database)} TEMPLATE ${database}`);
    await client.query(`ALTER DATABASE ${database} WITH ALLOW_CONNECTIONS true`);
  });
}

async function putBack(adminUrl: string, database: string): Promise<void> {
  await withClient(adminUrl, async (client) => {
    await client.query(`DROP DATABASE ${database} WITH (FORCE)`);
    await client.query(`ALTER DATABASE ${copyOf(database)} RENAME TO ${database}`);
  });
}

async function passed(trial: Trial, act: () => Promise<Partial<PassedFault>>): Promise<PassedFault> {
  const struckAtMs = monotonicMs();
  const inFlight = await trial.inFlight();
  const more = await act();
  const atMs = monotonicMs();
  return { inFlight, struckAtMs, backAtMs: atMs, takesWorkMs: atMs, ...more };
}

/** Temporal's databases are deleted while it runs; it starts with empty ones. */
export const temporalDeleted: Fault = {
  strike: async (trial) =>
    await passed(trial, async () => {
      const { stack, world } = trial.scene;
      const server = victimOf(trial.scene, "temporal");
      await server.kill();
      await stack.temporal.makeDatabases();
      const backAtMs = monotonicMs();
      await server.restart();
      // As docs/runbook.md says; migrate creates the missing namespace.
      await world.migrate();
      return { backAtMs };
    }),
};

/** Temporal is restored from a copy of its databases. */
export const temporalOlder: Fault = {
  share: EARLY,
  strike: async (trial, { olderMs }) => {
    const { stack } = trial.scene;
    const { adminUrl } = stack.postgres;
    const server = victimOf(trial.scene, "temporal");
    await server.kill();
    for (const database of stack.temporal.databases) {
      await copyDatabase(adminUrl, database);
    }
    await server.restart();
    await delay(olderMs);
    return await passed(trial, async () => {
      await server.kill();
      for (const database of stack.temporal.databases) {
        await putBack(adminUrl, database);
      }
      const backAtMs = monotonicMs();
      await server.restart();
      return { backAtMs };
    });
  },
};

/** The namespace is deleted and later created again. */
export const namespaceMissing: Fault = {
  strike: async (trial, { outageMs }) =>
    await passed(trial, async () => {
      const { world } = trial.scene;
      const connection = await Connection.connect({ address: world.temporalAddress });
      try {
        await connection.operatorService.deleteNamespace({ namespace: world.namespace });
      } finally {
        await connection.close();
      }
      await delay(outageMs);
      await world.migrate();
      return {};
    }),
};

/** Ends every process of Signet, which the runbook requires before a restore. */
async function endSignet(scene: Scene): Promise<() => Promise<void>> {
  const processes = [...victimsOf(scene, "worker"), ...victimsOf(scene, "api")];
  await Promise.all(processes.map(async (each) => await each.end()));
  return async () => {
    for (const each of processes) {
      await each.restart();
    }
  };
}

/** PostgreSQL is restored from a backup; Temporal keeps its data. */
export const postgresOlder: Fault = {
  share: EARLY,
  strike: async (trial, { olderMs }) => {
    const { stack, world } = trial.scene;
    const fromMs = monotonicMs();
    await copyDatabase(stack.postgres.adminUrl, world.database);
    await delay(olderMs);
    return await passed(trial, async () => {
      const startSignet = await endSignet(trial.scene);
      const toMs = monotonicMs();
      await putBack(stack.postgres.adminUrl, world.database);
      await world.migrate();
      await withClient(world.adminDatabaseUrl, async (client) => {
        await client.query("UPDATE rev_clock SET epoch = gen_random_uuid()");
      });
      const backAtMs = monotonicMs();
      await startSignet();
      return { backAtMs, takesWorkMs: backAtMs, gone: [fromMs, toMs] };
    });
  },
};
