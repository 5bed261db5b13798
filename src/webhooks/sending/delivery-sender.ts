/** Sends a loaded delivery in the format of its endpoint (contract 6.3) and returns its outcome. */
import type { LoadedDelivery } from "#database/repositories/webhooks/attempts.ts";
import type { AttemptError } from "#domain/delivery.ts";
import type { FormatOf } from "./delivery-format.ts";
import type { OpenDelivery } from "../ingest/event-content.ts";
import type { ReceiverAccess } from "./receiver-access.ts";

/** "TCP timeout over 10 seconds" (contract 6): one deadline from before DNS to complete response headers. */
export const DELIVERY_DEADLINE_MS = 10_000;

export interface SentAttempt {
  readonly startedAtMs: number;
  readonly durationMs: number;
  readonly status: number | null;
  /** Null for 2xx. */
  readonly error: AttemptError | null;
  readonly retryAfterMs: number | null;
  /** Response body as stored: sealed with the content's key, or text if the content is not sealed. */
  readonly responseBody: Buffer | string | null;
}

export interface DeliverySenderOptions {
  readonly access: ReceiverAccess;
  readonly formatOf: FormatOf;
  /** Decrypts the event's content. */
  readonly openContent: (delivery: LoadedDelivery) => Promise<OpenDelivery>;
}

export async function sendDelivery(
  { access, formatOf, openContent }: DeliverySenderOptions,
  delivery: LoadedDelivery,
  attempt: number,
): Promise<SentAttempt> {
  const { dataJson, keep } = await openContent(delivery);
  const written = await formatOf(delivery).write(delivery, attempt, dataJson);
  const request = { url: delivery.url, ...written, deadlineMs: DELIVERY_DEADLINE_MS };
  const result = await access.send(request, delivery);
  return {
    startedAtMs: result.startedAt,
    durationMs: result.durationMs,
    status: result.status,
    error: result.error,
    retryAfterMs: result.retryAfterMs,
    responseBody: result.responseBody === null ? null : keep(attempt, result.responseBody),
  };
}
