/** The operators' API as the commands call it. */
import { join } from "node:path";
import { readFile } from "node:fs/promises";
import { createTlsFetch } from "../client/tls-fetch.ts";
import { formatListen, type OperatorSettings } from "../config.ts";
import { readKey } from "../crypto/development-keys.ts";
import { OPERATOR_TOKEN_FILE } from "../crypto/secrets.ts";
import { type CliContext, CommandError } from "./context.ts";

const TIMEOUT_MS = 15_000;

/** An object of the API. */
export type Resource = Readonly<Record<string, unknown>>;

interface Problem {
  readonly code?: string;
  readonly detail?: string;
  readonly request_id?: string;
}

/** A call of the operators' API, by method, path below `/admin/v1` and body. */
export type AdminCall = (
  method: "GET" | "POST" | "PATCH" | "DELETE",
  path: string,
  body?: Resource,
) => Promise<Resource>;

/** How a call proves who makes it: by the operator's certificate where there is one, else by a token. */
interface Proof {
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: CliContext["fetch"];
}

async function certificateFetch(settings: OperatorSettings): Promise<CliContext["fetch"] | undefined> {
  const { operatorKeyFile, operatorCertFile, adminCaFile } = settings;
  if (operatorKeyFile === undefined || operatorCertFile === undefined) {
    return undefined;
  }
  try {
    const [key, cert, ca] = await Promise.all([
      readFile(operatorKeyFile),
      readFile(operatorCertFile),
      adminCaFile === undefined ? undefined : readFile(adminCaFile),
    ]);
    return createTlsFetch({ key, cert, ...(ca === undefined ? {} : { ca }) }) as CliContext["fetch"];
  } catch (error) {
    throw new CommandError(`The operator's certificate cannot be read: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

async function proofOf(settings: OperatorSettings, fetch: CliContext["fetch"]): Promise<Proof> {
  const { operatorToken: token, home } = settings;
  const withCertificate = await certificateFetch(settings);
  if (withCertificate !== undefined && token === undefined) {
    return { headers: {}, fetch: withCertificate };
  }
  const found = token ?? (await readKey(join(home, OPERATOR_TOKEN_FILE)));
  if (found === undefined) {
    throw new CommandError(
      `No operator token: set SIGNET_OPERATOR_TOKEN, or start the service once so that it makes one in ${home}.`,
    );
  }
  return { headers: { authorization: `Bearer ${found}` }, fetch: withCertificate ?? fetch };
}

function problemText(status: number, problem: Problem): string {
  const code = problem.code ?? `HTTP ${status}`;
  const request = problem.request_id === undefined ? "" : ` (request ${problem.request_id})`;
  return `${code}: ${problem.detail ?? "no details"}${request}`;
}

/** Makes the call from the settings. It throws CommandError with code, detail and request id. */
export function createAdminCall(context: CliContext): AdminCall {
  return async (method, path, body) => {
    const settings = context.settings();
    const address = settings.adminUrl ?? `http://${formatListen(settings.adminListen)}`;
    const { headers, fetch } = await proofOf(settings, context.fetch);
    let response: Response;
    try {
      response = await fetch(`${address}/admin/v1${path}`, {
        method,
        signal: AbortSignal.timeout(TIMEOUT_MS),
        headers: body === undefined ? headers : { ...headers, "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
    } catch (error) {
      const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error;
      throw new CommandError(
        `The operators' API at ${address} does not answer: ${reason instanceof Error ? reason.message : String(reason)}`,
        { cause: error },
      );
    }
    const answer = (await response.json().catch(() => ({}))) as Resource;
    if (!response.ok) {
      throw new CommandError(problemText(response.status, answer));
    }
    return answer;
  };
}

/** An id as a path segment: whatever was typed stays one segment. */
export function segment(id: string): string {
  return encodeURIComponent(id);
}
