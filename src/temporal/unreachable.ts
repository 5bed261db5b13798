/** Why Temporal cannot be used, in one sentence for the operator: the address, the setting, and what was answered. */
import { Connection, isGrpcServiceError } from "@temporalio/client";
import type { Logger } from "pino";
import { SignetError } from "#domain/errors.ts";
import { inOneLine, messageOf } from "#runtime/thrown.ts";
import { callDeadline, connectionOptions, type TemporalOptions } from "./client.ts";

const ANSWER_MS = 5_000;

// google.rpc.Code
const NOT_FOUND = 5;
const PERMISSION_DENIED = 7;
const UNAVAILABLE = 14;
const UNAUTHENTICATED = 16;

interface Answer {
  readonly code: number | undefined;
  readonly text: string;
}

/** Returns what a failed call says. gRPC also lists how it resolved the name, line by line. */
function answerOf(error: unknown): Answer {
  const failure = isGrpcServiceError(error) ? error : undefined;
  const text = failure === undefined || failure.details === "" ? messageOf(error) : failure.details;
  return {
    code: failure?.code,
    text: inOneLine(
      text
        .replace(/^No connection established\. Last error: (?:Error: )?/, "")
        .replace(/\.? Resolution note:.*$/s, "")
        .replaceAll(/ \(\d{4}-\d\d-\d\dT[\d:.]+Z\)/g, ""),
    ),
  };
}

/** Asks once, without waiting for a connection, so that the answer has the reason. Undefined if it is answered. */
async function ask(options: TemporalOptions): Promise<Answer | undefined> {
  const { channelArgs, ...connecting } = connectionOptions(options);
  const connection = Connection.lazy({
    ...connecting,
    // A connection that others have tried to open is known to have failed, but not why.
    channelArgs: { ...channelArgs, "grpc.use_local_subchannel_pool": 1 },
    interceptors: [],
  });
  const { namespace } = options;
  try {
    await connection.withDeadline(
      callDeadline(ANSWER_MS),
      async () => await connection.workflowService.describeNamespace({ namespace }),
    );
    return undefined;
  } catch (error) {
    return answerOf(error);
  } finally {
    await connection.close().catch(() => undefined);
  }
}

function sentenceOf({ address, namespace, tls, apiKey }: TemporalOptions, { code, text }: Answer): string {
  const where = `Temporal at ${address} (TEMPORAL_ADDRESS)`;
  if (code === NOT_FOUND) {
    return `${where} has no namespace ${namespace} (TEMPORAL_NAMESPACE): run \`signet migrate\`, which creates it`;
  }
  if (code === UNAUTHENTICATED || code === PERMISSION_DENIED) {
    const setting = apiKey === undefined ? "TEMPORAL_TLS_CLIENT_CERT_PATH" : "TEMPORAL_API_KEY";
    return `${where} refused this client (${setting}, TEMPORAL_NAMESPACE ${namespace}): ${text}`;
  }
  if (/name resolution failed/i.test(text)) {
    return `the host of ${where} is unknown: ${text}`;
  }
  if (/alert.*certificate|alert handshake failure/i.test(text)) {
    return `${where} refused the client certificate (TEMPORAL_TLS_CLIENT_CERT_PATH): ${text}`;
  }
  if (/certificate|altname|self.signed/i.test(text)) {
    return `the certificate of ${where} is not trusted, check TEMPORAL_TLS_SERVER_CA_CERT_PATH and TEMPORAL_TLS_SERVER_NAME: ${text}`;
  }
  const refused = /ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT/.test(text);
  if (code !== UNAVAILABLE || refused) {
    return `${where} cannot be reached: ${text}`;
  }
  return tls === false
    ? `${where} cannot be reached without TLS: ${text}; if it wants TLS, set TEMPORAL_TLS=true or the TEMPORAL_TLS_* settings`
    : `${where} cannot be reached over TLS: ${text}; if it speaks none, leave out TEMPORAL_TLS, TEMPORAL_TLS_* and TEMPORAL_API_KEY`;
}

/** Asks why a call or a start has failed. Returns the failure itself if Temporal answers by now. */
export async function whyUnreachable(options: TemporalOptions, failure: unknown): Promise<unknown> {
  const answer = await ask(options);
  return answer === undefined
    ? failure
    : new SignetError("UNAVAILABLE", { detail: sentenceOf(options, answer), cause: failure });
}

/** Logs it if Temporal cannot be used yet, for a process that starts without it. */
export async function reportUnreachable(options: TemporalOptions, log: Logger): Promise<void> {
  const failure = await whyUnreachable(options, undefined);
  if (failure !== undefined) {
    log.warn({ reasons: [messageOf(failure)] }, "Temporal cannot be used yet, so events wait in the outbox");
  }
}

/**
 * Connects.
 *
 * @throws SignetError `UNAVAILABLE`, one sentence
 */
export async function connectTemporal(options: TemporalOptions): Promise<Connection> {
  try {
    return await Connection.connect(connectionOptions(options));
  } catch (error) {
    throw await whyUnreachable(options, error);
  }
}
