/** Namespaces of the run's Temporal. Task queues have fixed names, so nobody shares the namespace of a worker. */
import { randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Connection } from "@temporalio/client";
import { msToTs } from "@temporalio/common/lib/time.js";
import { hasCode } from "#processes/embedded/start-up-error.ts";
import { ensureNamespace, RETENTION_MS } from "#temporal/namespace.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

/** The run's values of the same names (test/support/global-setup.ts). */
export interface RunNamespaces {
  readonly runDirectory: string;
  readonly temporalAddress: string;
  /** Prepared namespaces. */
  readonly temporalNamespaces: readonly string[];
}

/** Returns a namespace that nobody else in the run uses: a prepared one if one is left, else a new one. */
export async function takeNamespace(run: RunNamespaces): Promise<string> {
  for (const namespace of run.temporalNamespaces) {
    try {
      // Only one process can succeed in creating the directory.
      await mkdir(join(run.runDirectory, "namespaces", namespace));
      return namespace;
    } catch (error) {
      if (!hasCode(error, "EEXIST")) {
        throw error;
      }
    }
  }
  const namespace = `x${randomBytes(6).toString("hex")}`;
  const connection = await Connection.connect({ address: run.temporalAddress });
  try {
    // `ensureNamespace` asks for it first, and the server then remembers for a second that it is missing.
    await connection.workflowService.registerNamespace({
      namespace,
      workflowExecutionRetentionPeriod: msToTs(RETENTION_MS),
    });
    await ensureNamespace(connection, { timers: machineTimers, namespace, address: run.temporalAddress });
  } finally {
    await connection.close();
  }
  return namespace;
}
