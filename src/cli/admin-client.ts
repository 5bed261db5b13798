/** Client of the operators' API, used by the commands. */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { readFile } from "node:fs/promises";
import { readText } from "#lib/bounded-body.ts";
import { type RetryPolicy, withRetries } from "#lib/client/retry.ts";
import { runtimeWith } from "#lib/client/runtime.ts";
import { createTlsFetch } from "#lib/client/tls-fetch.ts";
import { formatListen, type OperatorSettings } from "#config/config.ts";
import { OPERATOR_TOKEN_FILE, readKey } from "#crypto/development-keys.ts";
import { messageOf } from "#runtime/thrown.ts";
import type { CliContext } from "./context.ts";
import { CommandError, EXIT, exitCodeOfStatus } from "./exit-codes.ts";

const TIMEOUT_MS = 15_000;
/** Applies when the answer to a request was lost. */
const RETRY: RetryPolicy = { attempts: 3, baseMs: 500, maxMs: 2_000, maxRetryAfterMs: 0 };

/** An object of the API. */
export type Resource = Readonly<Record<string, unknown>>;

interface Problem {
  readonly code?: string;
  readonly detail?: string;
  readonly request_id?: string;
}

/** Calls the operators' API; the path is relative to `/admin/v1`. */
export type AdminCall = (
  method: "GET" | "POST" | "PATCH" | "DELETE",
  path: string,
  body?: Resource,
) => Promise<Resource>;

/** Authentication of a call: the operator's certificate if there is one, otherwise a token. */
interface Proof {
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: CliContext["fetch"];
}

const hasCertificate = ({ operatorKeyFile, operatorCertFile }: OperatorSettings): boolean =>
  operatorKeyFile !== undefined && operatorCertFile !== undefined;

/** Returns a `fetch` that uses the operator's certificate and the listener's CA, if they are configured. */
async function tlsFetch(
  settings: OperatorSettings,
  address: string,
): Promise<CliContext["fetch"] | undefined> {
  const { operatorKeyFile: key, operatorCertFile: cert, adminCaFile: ca } = settings;
  const paths = {
    ...(key === undefined || cert === undefined ? {} : { key, cert }),
    ...(ca === undefined ? {} : { ca }),
  };
  // A CA without a client certificate does not matter for an http address.
  if (!hasCertificate(settings) && (ca === undefined || !/^https:/i.test(address))) {
    return undefined;
  }
  try {
    const read = Object.entries(paths).map(async ([name, path]) => [name, await readFile(path)] as const);
    return createTlsFetch(Object.fromEntries(await Promise.all(read))) as CliContext["fetch"];
  } catch (error) {
    throw new CommandError(`The operator's certificate cannot be read: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

async function proofOf(
  settings: OperatorSettings,
  address: string,
  plain: CliContext["fetch"],
): Promise<Proof> {
  const { operatorToken: token, home } = settings;
  const fetch = (await tlsFetch(settings, address)) ?? plain;
  if (hasCertificate(settings) && token === undefined) {
    return { headers: {}, fetch };
  }
  const found = token ?? (await readKey(join(home, OPERATOR_TOKEN_FILE)));
  if (found === undefined) {
    throw new CommandError(
      `No operator token: set SIGNET_OPERATOR_TOKEN, or start the service once so that it creates one in ${home}.`,
      { exitCode: EXIT.notAllowed },
    );
  }
  return { headers: { authorization: `Bearer ${found}` }, fetch };
}

function refusal(status: number, problem: Resource & Problem): CommandError {
  const code = problem.code ?? `HTTP ${status}`;
  const request = problem.request_id === undefined ? "" : ` (request ${problem.request_id})`;
  return new CommandError(`${code}: ${problem.detail ?? "no details"}${request}`, {
    exitCode: exitCodeOfStatus(status),
    problem,
  });
}

/** The service may have carried out the request, but its answer was lost. */
class AnswerLost extends CommandError {}

function noAnswer(address: string, error: unknown): CommandError {
  const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const text = `The operators' API at ${address} does not answer: ${messageOf(reason)}`;
  // Nothing listens at the address, so the request was not carried out.
  const refused = (reason as { code?: unknown } | null)?.code === "ECONNREFUSED";
  const options = { cause: error, exitCode: EXIT.unavailable };
  return refused ? new CommandError(text, options) : new AnswerLost(text, options);
}

/**
 * Creates a function that calls the operators' API. It throws CommandError with code, detail and request id. If the
 * answer is lost, it retries GET and POST. A retried POST keeps its Idempotency-Key, so nothing is created twice.
 */
export function createAdminCall(context: CliContext): AdminCall {
  return async (method, path, body) => {
    const settings = context.settings();
    const address = settings.adminUrl ?? `http://${formatListen(settings.adminListen)}`;
    const { headers: proof, fetch } = await proofOf(settings, address, context.fetch);
    const headers = {
      ...proof,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(method === "POST" ? { "idempotency-key": randomUUID() } : {}),
    };
    const send = async (): Promise<{ readonly response: Response; readonly answer: Resource }> => {
      try {
        const response = await fetch(`${address}/admin/v1${path}`, {
          method,
          signal: AbortSignal.timeout(TIMEOUT_MS),
          headers,
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
        return { response, answer: readResource(await readText(response)) };
      } catch (error) {
        throw noAnswer(address, error);
      }
    };
    const { response, answer } = await withRetries(send, {
      runtime: runtimeWith({}),
      policy: RETRY,
      repeat: (error) => error instanceof AnswerLost && (method === "GET" || method === "POST"),
    });
    if (!response.ok) {
      throw refusal(response.status, answer);
    }
    return answer;
  };
}

/**
 * Streams an answer of any length, without a timeout.
 *
 * @throws CommandError if the API does not answer, or answers with a problem
 */
export async function openAdminStream(context: CliContext, path: string): Promise<AsyncIterable<Uint8Array>> {
  const settings = context.settings();
  const address = settings.adminUrl ?? `http://${formatListen(settings.adminListen)}`;
  const { headers, fetch } = await proofOf(settings, address, context.fetch);
  const response = await fetch(`${address}/admin/v1${path}`, { headers }).catch((error: unknown) => {
    throw noAnswer(address, error);
  });
  if (!response.ok || response.body === null) {
    throw refusal(response.status, readResource(await readText(response)));
  }
  return response.body;
}

/** Parses an answer; returns an empty object if it is not JSON. */
function readResource(text: string): Resource {
  try {
    return JSON.parse(text) as Resource;
  } catch {
    return {};
  }
}

/** Encodes an id so that it stays one path segment, whatever was typed. */
export function segment(id: string): string {
  return encodeURIComponent(id);
}
