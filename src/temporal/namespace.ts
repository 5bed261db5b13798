/** Creates or corrects the namespace with its retention and search attributes, over the API (wire.md, Temporal). */
import { setTimeout as delay } from "node:timers/promises";
import { type Connection, isGrpcServiceError } from "@temporalio/client";
import { SearchAttributeType } from "@temporalio/common";
import { encodeSearchAttributeIndexedValueType } from "@temporalio/common/lib/search-attributes.js";
import { msToTs, tsToMs } from "@temporalio/common/lib/time.js";
import { SignetError } from "../domain/errors.ts";

/** Search attributes by name. SQL visibility allows at most three keyword lists per namespace. */
export const SEARCH_ATTRIBUTE_TYPES: Readonly<Record<string, SearchAttributeType>> = {
  SignetTenant: SearchAttributeType.KEYWORD_LIST,
  SignetEndpoint: SearchAttributeType.KEYWORD_LIST,
  SignetDelivery: SearchAttributeType.KEYWORD_LIST,
  SignetState: SearchAttributeType.KEYWORD,
  SignetOpen: SearchAttributeType.INT,
  SignetAttempt: SearchAttributeType.INT,
};

/** Retention of closed workflows: 72 hours. */
export const RETENTION_MS = 72 * 3_600_000;

// google.rpc.Code
const INVALID_ARGUMENT = 3;
const NOT_FOUND = 5;
const ALREADY_EXISTS = 6;
const PERMISSION_DENIED = 7;
const UNIMPLEMENTED = 12;
const UNAVAILABLE = 14;

const POLL_MS = 50;
const SETTLE_TIMEOUT_MS = 30_000;

/** The required services of a connection. A worker's `NativeConnection` has them too. */
export type NamespaceConnection = Pick<Connection, "workflowService" | "operatorService">;

export interface EnsureNamespaceOptions {
  readonly namespace: string;
  /** By default {@link RETENTION_MS}. */
  readonly retentionMs?: number;
}

function failedWith(error: unknown, ...codes: readonly number[]): boolean {
  return isGrpcServiceError(error) && codes.includes(error.code);
}

/** Ensures the retention. Returns whether the namespace existed. */
async function ensureRegistered(
  connection: NamespaceConnection,
  namespace: string,
  retentionMs: number,
): Promise<void> {
  const retention = msToTs(retentionMs);
  try {
    const { config } = await connection.workflowService.describeNamespace({ namespace });
    if (tsToMs(config?.workflowExecutionRetentionTtl) !== retentionMs) {
      await connection.workflowService.updateNamespace({
        namespace,
        config: { workflowExecutionRetentionTtl: retention },
      });
    }
    return;
  } catch (error) {
    if (!failedWith(error, NOT_FOUND)) {
      throw error;
    }
  }
  try {
    await connection.workflowService.registerNamespace({
      namespace,
      description: "Signet deliveries",
      workflowExecutionRetentionPeriod: retention,
    });
  } catch (error) {
    // Another of our processes was faster, with the same retention.
    if (!failedWith(error, ALREADY_EXISTS)) {
      throw error;
    }
  }
}

/** Returns the missing search attributes of the namespace. */
async function missingAttributes(connection: NamespaceConnection, namespace: string): Promise<string[]> {
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  const missing: string[] = [];
  for (const [name, type] of Object.entries(SEARCH_ATTRIBUTE_TYPES)) {
    const found = customAttributes?.[name];
    if (found === undefined || found === null) {
      missing.push(name);
    } else if (found !== encodeSearchAttributeIndexedValueType(type)) {
      throw new SignetError("UNAVAILABLE", {
        detail: `search attribute ${name} of Temporal namespace ${namespace} is not of type ${type}; remove it there, or use another TEMPORAL_NAMESPACE`,
      });
    }
  }
  return missing;
}

async function addAttributes(
  connection: NamespaceConnection,
  namespace: string,
  names: readonly string[],
): Promise<void> {
  const searchAttributes = Object.fromEntries(
    names.map((name) => {
      const type = encodeSearchAttributeIndexedValueType(SEARCH_ATTRIBUTE_TYPES[name]);
      return [name, type ?? 0];
    }),
  );
  try {
    await connection.operatorService.addSearchAttributes({ namespace, searchAttributes });
  } catch (error) {
    if (failedWith(error, PERMISSION_DENIED, UNIMPLEMENTED)) {
      throw new SignetError("UNAVAILABLE", {
        detail: `Temporal namespace ${namespace} lacks the search attributes ${names.join(", ")}, and Signet lacks permission to add them; ask an operator to add them`,
        cause: error,
      });
    }
    if (!failedWith(error, ALREADY_EXISTS)) {
      throw error;
    }
  }
}

/** Repeats `check` until it succeeds and the servers know of the recent change. */
async function eventually(what: string, check: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + SETTLE_TIMEOUT_MS;
  for (;;) {
    let cause: unknown;
    try {
      if (await check()) {
        return;
      }
    } catch (error) {
      if (!failedWith(error, INVALID_ARGUMENT, NOT_FOUND, UNAVAILABLE)) {
        throw error;
      }
      cause = error;
    }
    if (performance.now() > deadline) {
      throw new SignetError("UNAVAILABLE", {
        detail: `${what} was not ready within ${SETTLE_TIMEOUT_MS} ms`,
        cause,
      });
    }
    await delay(POLL_MS);
  }
}

/** Queries by every attribute, which works only once visibility knows all of them. */
async function canQuery(connection: NamespaceConnection, namespace: string): Promise<boolean> {
  const query = Object.keys(SEARCH_ATTRIBUTE_TYPES)
    .map((name) => `${name} IS NULL`)
    .join(" AND ");
  await connection.workflowService.countWorkflowExecutions({ namespace, query });
  return true;
}

/**
 * Ensures that the namespace exists, keeps closed workflows for 72 hours, and has the search attributes. Waits until
 * the server uses it. Does nothing if everything is in place; safe to call concurrently.
 *
 * @throws SignetError `UNAVAILABLE` if that is impossible: attributes of another type, no permission
 */
export async function ensureNamespace(
  connection: NamespaceConnection,
  options: EnsureNamespaceOptions,
): Promise<void> {
  const { namespace, retentionMs = RETENTION_MS } = options;
  await ensureRegistered(connection, namespace, retentionMs);
  const what = `Temporal namespace ${namespace}`;
  await eventually(what, async () => {
    const { config } = await connection.workflowService.describeNamespace({ namespace });
    return tsToMs(config?.workflowExecutionRetentionTtl) === retentionMs;
  });
  await eventually(what, async () => {
    const missing = await missingAttributes(connection, namespace);
    if (missing.length > 0) {
      await addAttributes(connection, namespace, missing);
    }
    return missing.length === 0;
  });
  await eventually(what, async () => await canQuery(connection, namespace));
}
