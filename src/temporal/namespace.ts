/**
 * Creates or corrects the namespace with its retention and search attributes, over the API (contract 12). Where
 * that takes more rights than this process has, as on Temporal Cloud, it says what an administrator must run.
 */
import { type Connection, isGrpcServiceError } from "@temporalio/client";
import { type SearchAttributeType, TypedSearchAttributes } from "@temporalio/common";
import { encodeSearchAttributeIndexedValueType } from "@temporalio/common/lib/search-attributes.js";
import { msToTs, tsToMs } from "@temporalio/common/lib/time.js";
import { SEARCH_ATTRIBUTES } from "#workflows/messages.ts";
import { SignetError } from "#domain/errors.ts";
import { HOUR_MS } from "#domain/ids.ts";
import type { Timers } from "#domain/clock.ts";

/** Search attributes by name. SQL visibility allows at most three keyword lists and three integers per namespace. */
export const SEARCH_ATTRIBUTE_TYPES: Readonly<Record<string, SearchAttributeType>> = Object.fromEntries(
  Object.values(SEARCH_ATTRIBUTES).map(({ name, type }) => [name, type]),
);

/** Minimum retention of closed workflows: 72 hours. */
export const RETENTION_MS = 72 * HOUR_MS;

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
  readonly timers: Timers;
  /** Address of the frontend, for the commands of an administrator. */
  readonly address: string;
  /** Set if the process signs in with an API key. */
  readonly apiKey?: () => string;
}

/** The process lacks rights for what is missing in the namespace. */
export class AdministratorNeededError extends SignetError {
  /** Commands for a shell. */
  readonly commands: readonly string[];

  constructor({ namespace }: EnsureNamespaceOptions, commands: readonly string[], cause: unknown) {
    const lines = commands.map((command) => `\n  ${command}`).join("");
    super("UNAVAILABLE", {
      detail: `Signet lacks the permission to prepare Temporal namespace ${namespace}. Have an administrator of Temporal run\n${lines}\n\nthen run \`signet migrate\` again`,
      cause,
    });
    this.commands = commands;
  }
}

/** What only an administrator can do, and the refusal that showed it. */
interface Refused {
  readonly commands: string[];
  cause?: unknown;
}

const RETENTION_HOURS = RETENTION_MS / HOUR_MS;

function quoted(text: string): string {
  return /^[\w.:[\]-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** An administrator's commands: of Temporal Cloud's tool, or of the server's. */
function administratorsCommands({ namespace, address, apiKey }: EnsureNamespaceOptions): {
  readonly create: string;
  readonly retain: string;
  readonly addAttributes: (names: readonly string[]) => string;
} {
  const name = quoted(namespace);
  if (/\.(?:tmprl\.cloud|api\.temporal\.io)(?::\d+)?$/.test(address)) {
    const authentication =
      apiKey === undefined
        ? "--ca-certificate-file <CA of the client certificates>"
        : "--auth-method api_key";
    const days = `--retention-days ${RETENTION_HOURS / 24}`;
    return {
      create: `tcld namespace create --namespace ${name} --region <region> ${authentication} ${days}`,
      retain: `tcld namespace retention set --namespace ${name} ${days}`,
      addAttributes: (names) =>
        `tcld namespace search-attributes add --namespace ${name} ${names.map((attribute) => `--search-attribute ${attribute}=${metadataType(attribute)}`).join(" ")}`,
    };
  }
  const where = `--namespace ${name} --address ${quoted(address)}`;
  return {
    create: `temporal operator namespace create ${where} --retention ${RETENTION_HOURS}h`,
    retain: `temporal operator namespace update ${where} --retention ${RETENTION_HOURS}h`,
    addAttributes: (names) =>
      `temporal operator search-attribute create ${where} ${names.map((attribute) => `--name ${attribute} --type ${metadataType(attribute)}`).join(" ")}`,
  };
}

function metadataType(attribute: string): string {
  const type = SEARCH_ATTRIBUTE_TYPES[attribute];
  return type === undefined ? "" : TypedSearchAttributes.toMetadataType(type);
}

function failedWith(error: unknown, ...codes: readonly number[]): boolean {
  return isGrpcServiceError(error) && codes.includes(error.code);
}

/** Whether the server refuses the call to this client, or does not serve it at all. */
function isRefusal(error: unknown): boolean {
  return failedWith(error, PERMISSION_DENIED, UNIMPLEMENTED);
}

/** Runs a call. Notes the administrator's commands if it is refused. @returns whether it was accepted */
async function unlessRefused(
  call: () => Promise<unknown>,
  refused: Refused,
  ...commands: readonly string[]
): Promise<boolean> {
  try {
    await call();
    return true;
  } catch (error) {
    if (!isRefusal(error)) {
      throw error;
    }
    refused.commands.push(...commands);
    refused.cause = error;
    return false;
  }
}

/** Returns the retention; undefined if there is no such namespace, or none that this client may read. */
async function retentionOf(
  { workflowService }: NamespaceConnection,
  namespace: string,
): Promise<number | undefined> {
  try {
    const { config } = await workflowService.describeNamespace({ namespace });
    return tsToMs(config?.workflowExecutionRetentionTtl);
  } catch (error) {
    if (failedWith(error, NOT_FOUND, PERMISSION_DENIED)) {
      return undefined;
    }
    throw error;
  }
}

/** Ensures that the namespace exists and keeps closed workflows long enough. A longer retention remains. */
async function ensureRegistered(
  connection: NamespaceConnection,
  options: EnsureNamespaceOptions,
  refused: Refused,
): Promise<void> {
  const { namespace } = options;
  const { workflowService } = connection;
  const commands = administratorsCommands(options);
  const retention = await retentionOf(connection, namespace);
  if (retention === undefined) {
    const everything = [commands.create, commands.addAttributes(Object.keys(SEARCH_ATTRIBUTE_TYPES))];
    const register = async (): Promise<void> => {
      try {
        await workflowService.registerNamespace({
          namespace,
          description: "Signet deliveries",
          workflowExecutionRetentionPeriod: msToTs(RETENTION_MS),
        });
      } catch (error) {
        // Another of our processes was faster, with the same retention.
        if (!failedWith(error, ALREADY_EXISTS)) {
          throw error;
        }
      }
    };
    if (!(await unlessRefused(register, refused, ...everything))) {
      throw new AdministratorNeededError(options, refused.commands, refused.cause);
    }
  } else if (retention < RETENTION_MS) {
    const config = { workflowExecutionRetentionTtl: msToTs(RETENTION_MS) };
    const update = async (): Promise<unknown> => await workflowService.updateNamespace({ namespace, config });
    if (!(await unlessRefused(update, refused, commands.retain))) {
      return;
    }
  }
  await eventually(
    options.timers,
    `Temporal namespace ${namespace}`,
    async () => ((await retentionOf(connection, namespace)) ?? 0) >= RETENTION_MS,
  );
}

/** Whether visibility knows the attributes. The query is for one id, so it is cheap however many workflows there are. */
async function isQueryable(
  { workflowService }: Pick<NamespaceConnection, "workflowService">,
  namespace: string,
  names: readonly string[],
): Promise<boolean> {
  const query = ['WorkflowId = "none"', ...names.map((name) => `${name} IS NULL`)].join(" AND ");
  try {
    await workflowService.countWorkflowExecutions({ namespace, query });
    return true;
  } catch (error) {
    if (!failedWith(error, INVALID_ARGUMENT)) {
      throw error;
    }
    return false;
  }
}

/** Returns the attributes that no query may use. This takes fewer rights than listing them. */
export async function unqueryable(
  connection: Pick<NamespaceConnection, "workflowService">,
  namespace: string,
): Promise<string[]> {
  const names = Object.keys(SEARCH_ATTRIBUTE_TYPES);
  const missing: string[] = [];
  if (!(await isQueryable(connection, namespace, names))) {
    for (const name of names) {
      if (!(await isQueryable(connection, namespace, [name]))) {
        missing.push(name);
      }
    }
  }
  return missing;
}

/** Returns the missing search attributes of the namespace. */
async function missingAttributes(connection: NamespaceConnection, namespace: string): Promise<string[]> {
  const listed = await connection.operatorService
    .listSearchAttributes({ namespace })
    .catch((error: unknown) => {
      if (isRefusal(error)) {
        return undefined;
      }
      throw error;
    });
  if (listed === undefined) {
    return await unqueryable(connection, namespace);
  }
  const { customAttributes } = listed;
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
    if (!failedWith(error, ALREADY_EXISTS)) {
      throw error;
    }
  }
}

/** Repeats `check` until it succeeds and the servers know of the recent change. */
async function eventually(timers: Timers, what: string, check: () => Promise<boolean>): Promise<void> {
  const deadline = timers.monotonic() + SETTLE_TIMEOUT_MS;
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
    if (timers.monotonic() > deadline) {
      throw new SignetError("UNAVAILABLE", {
        detail: `${what} was not ready within ${SETTLE_TIMEOUT_MS} ms`,
        cause,
      });
    }
    await timers.sleep(POLL_MS);
  }
}

/**
 * Ensures that the namespace exists, keeps closed workflows for 72 hours or longer, and has the search attributes. Waits
 * until the server uses it. Does nothing if everything is in place; safe to call concurrently.
 *
 * @throws AdministratorNeededError if something is missing and this process may not change it
 * @throws SignetError `UNAVAILABLE` if an attribute has another type
 */
export async function ensureNamespace(
  connection: NamespaceConnection,
  options: EnsureNamespaceOptions,
): Promise<void> {
  const { namespace } = options;
  const refused: Refused = { commands: [] };
  await ensureRegistered(connection, options, refused);
  const what = `Temporal namespace ${namespace}`;
  await eventually(options.timers, what, async () => {
    const missing = await missingAttributes(connection, namespace);
    const add = async (): Promise<void> => await addAttributes(connection, namespace, missing);
    const command = administratorsCommands(options).addAttributes(missing);
    return missing.length === 0 || !(await unlessRefused(add, refused, command));
  });
  if (refused.commands.length > 0) {
    throw new AdministratorNeededError(options, refused.commands, refused.cause);
  }
  await eventually(options.timers, what, async () => (await unqueryable(connection, namespace)).length === 0);
}
