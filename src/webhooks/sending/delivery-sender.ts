/** Turns a loaded delivery into a signed request (contract 6.3) and its outcome. */
import type { LoadedDelivery } from "#database/repositories/webhooks/attempts.ts";
import type { Clock } from "#domain/clock.ts";
import type { AttemptError } from "#domain/delivery.ts";
import { buildEnvelope } from "./envelope.ts";
import type { OpenDelivery } from "../ingest/event-content.ts";
import type { HttpSender, SendRequest } from "./http-sender.ts";
import type { ReceiverAccess } from "./receiver-access.ts";
import type { OpenSecrets } from "./open-secrets.ts";
import { type SetKeys, signSet } from "../ssf/set.ts";
import type { Signer } from "./signer.ts";

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

export interface DeliverySender {
  send(delivery: LoadedDelivery, attempt: number): Promise<SentAttempt>;
}

export interface DeliverySenderOptions {
  readonly http: HttpSender;
  /** For endpoints with custom headers or authentication. */
  readonly access: ReceiverAccess;
  readonly signer: Signer;
  readonly clock: Clock;
  /** Decrypts the event's content. */
  readonly openContent: (delivery: LoadedDelivery) => Promise<OpenDelivery>;
  readonly openSecrets: OpenSecrets;
  /** Key of security event tokens. */
  readonly setKeys: SetKeys;
}

/** The bytes of an attempt and its headers. */
type Written = Pick<SendRequest, "body" | "headers">;

export function createDeliverySender(options: DeliverySenderOptions): DeliverySender {
  const { http, access, signer, clock, openContent, openSecrets, setKeys } = options;

  async function writeSet(delivery: LoadedDelivery, dataJson: string | Buffer): Promise<Written> {
    const { delivery_id: id, ssf_stream: streamId, occurred_at: occurredAt } = delivery;
    const claims = { id, streamId: streamId ?? "", occurredAt, claimsJson: dataJson.toString() };
    return { headers: signer.setHeaders(), body: Buffer.from(await signSet(setKeys, claims)) };
  }

  async function writeWebhook(
    delivery: LoadedDelivery,
    attempt: number,
    dataJson: string | Buffer,
  ): Promise<Written> {
    const timestampSeconds = Math.floor(clock.now() / 1_000);
    const body = buildEnvelope({
      eventId: delivery.event_id,
      type: delivery.event_type,
      timestamp: delivery.occurred_at.toISOString(),
      sentAt: timestampSeconds,
      attempt,
      endpointId: delivery.endpoint_id,
      deliveryId: delivery.delivery_id,
      sourceId: delivery.source_id,
      own: delivery.own,
      metadataJson: delivery.metadata,
      dataJson,
    });
    const headers = signer.headers({
      ...(await openSecrets(delivery)),
      body,
      eventId: delivery.event_id,
      eventType: delivery.event_type,
      deliveryId: delivery.delivery_id,
      attempt,
      timestampSeconds,
    });
    return { headers, body };
  }

  return {
    send: async (delivery, attempt) => {
      const { dataJson, keep } = await openContent(delivery);
      const written =
        delivery.ssf_stream === null
          ? await writeWebhook(delivery, attempt, dataJson)
          : await writeSet(delivery, dataJson);
      const request = { url: delivery.url, ...written, deadlineMs: DELIVERY_DEADLINE_MS };
      const { endpoint_id, tenant_id, data_key, request_version } = delivery;
      const result =
        request_version === null
          ? await http.send(request)
          : await access.send(request, { endpoint_id, tenant_id, data_key, request_version });
      return {
        startedAtMs: result.startedAt,
        durationMs: result.durationMs,
        status: result.status,
        error: result.error,
        retryAfterMs: result.retryAfterMs,
        responseBody: result.responseBody === null ? null : keep(attempt, result.responseBody),
      };
    },
  };
}
