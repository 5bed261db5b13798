/** The two formats of requests to endpoints: webhooks, and security event tokens for those of streams (RFC 8935). */
import type { PingTarget } from "#database/repositories/endpoints/endpoint-verifications.ts";
import type { Endpoint } from "#database/repositories/endpoints/endpoints.ts";
import type { EndpointTarget } from "#database/repositories/stored-secrets.ts";
import type { LoadedDelivery } from "#database/repositories/webhooks/attempts.ts";
import type { Clock } from "#domain/clock.ts";
import { SignetError } from "#domain/errors.ts";
import { newId, type RandomBytes } from "#domain/ids.ts";
import { STREAM_EVENTS } from "#domain/security-events.ts";
import { type SetClaims, type SetKeys, signSet } from "../ssf/set.ts";
import { buildEnvelope } from "./envelope.ts";
import type { SendRequest } from "./http-sender.ts";
import type { OpenSecrets } from "./open-secrets.ts";
import type { Signer } from "./signer.ts";

const CHALLENGE_BYTES = 32;
const PING_EVENT_TYPE = "ping";

/** The bytes of a request and its headers. */
type Written = Pick<SendRequest, "body" | "headers">;

export interface DeliveryFormat {
  /** Writes an attempt of a delivery with the event's data. */
  write(delivery: LoadedDelivery, attempt: number, dataJson: string | Buffer): Promise<Written>;
  /** Writes the ping that verifies an endpoint. `challenge` is the text that shows that its receiver has read it. */
  writePing(target: PingTarget, attempt: number): Promise<Written & { readonly challenge: string }>;
  /** Whether a response with this status acknowledges a ping. */
  acknowledges(status: number | null): boolean;
}

type Formatted = Pick<Endpoint, "ssf_stream">;

export type FormatOf = (endpoint: Formatted) => DeliveryFormat;

export interface DeliveryFormatServices {
  readonly signer: Signer;
  readonly openSecrets: OpenSecrets;
  /** Key of security event tokens. */
  readonly setKeys: SetKeys;
  /** Public URL, `iss` of those tokens. */
  readonly issuer: string;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
}

/** Creates the function that returns the format of an endpoint's requests. */
export function createDeliveryFormats(services: DeliveryFormatServices): FormatOf {
  const [webhooks, tokens] = [createWebhookFormat(services), createTokenFormat(services)];
  return (endpoint) => (streamOf(endpoint) === null ? webhooks : tokens);
}

/** Returns the stream of security events whose tokens an endpoint gets; null for webhooks. */
export function streamOf({ ssf_stream: stream }: Formatted): string | null {
  return stream;
}

/** @throws SignetError INVALID_STATE for the endpoint of a stream, which only the stream's own routes change */
export function requireWebhooks(endpoint: Endpoint): Endpoint {
  const stream = streamOf(endpoint);
  if (stream !== null) {
    throw new SignetError("INVALID_STATE", {
      detail: `The endpoint belongs to the stream ${stream}: change or delete the stream.`,
    });
  }
  return endpoint;
}

function createWebhookFormat({
  signer,
  openSecrets,
  clock,
  randomBytes,
}: DeliveryFormatServices): DeliveryFormat {
  async function sign(
    target: EndpointTarget,
    envelope: Parameters<typeof buildEnvelope>[0],
  ): Promise<Written> {
    const body = buildEnvelope(envelope);
    const { eventId, type: eventType, deliveryId, attempt, sentAt: timestampSeconds } = envelope;
    const secrets = await openSecrets(target);
    return {
      headers: signer.headers({
        ...secrets,
        body,
        eventId,
        eventType,
        deliveryId,
        attempt,
        timestampSeconds,
      }),
      body,
    };
  }

  return {
    write: (delivery, attempt, dataJson) =>
      sign(delivery, {
        eventId: delivery.event_id,
        type: delivery.event_type,
        timestamp: delivery.occurred_at.toISOString(),
        sentAt: Math.floor(clock.now() / 1_000),
        attempt,
        endpointId: delivery.endpoint_id,
        deliveryId: delivery.delivery_id,
        sourceId: delivery.source_id,
        own: delivery.own,
        metadataJson: delivery.metadata,
        dataJson,
      }),
    writePing: async (target, attempt) => {
      const nowMs = clock.now();
      const challenge = Buffer.from(randomBytes(CHALLENGE_BYTES)).toString("base64url");
      const written = await sign(target, {
        eventId: newId("event", nowMs, randomBytes),
        type: PING_EVENT_TYPE,
        timestamp: new Date(nowMs).toISOString(),
        sentAt: Math.floor(nowMs / 1_000),
        attempt,
        endpointId: target.endpoint_id,
        // Receivers may expect all members of a delivery. This id has no row.
        deliveryId: newId("delivery", nowMs, randomBytes),
        own: true,
        metadataJson: target.metadata,
        dataJson: JSON.stringify({ endpoint_id: target.endpoint_id, challenge }),
      });
      return { ...written, challenge };
    },
    // Only 200 acknowledges a ping (contract 3), not another 2xx.
    acknowledges: (status) => status === 200,
  };
}

function createTokenFormat({
  signer,
  setKeys,
  issuer,
  clock,
  randomBytes,
}: DeliveryFormatServices): DeliveryFormat {
  async function sign(target: Formatted, claims: Omit<SetClaims, "streamId">): Promise<Written> {
    const set = await signSet(setKeys, { ...claims, streamId: streamOf(target) ?? "" });
    return { headers: signer.setHeaders(), body: Buffer.from(set) };
  }

  return {
    write: (delivery, _attempt, dataJson) =>
      sign(delivery, {
        id: delivery.delivery_id,
        occurredAt: delivery.occurred_at,
        claimsJson: dataJson.toString(),
      }),
    // A verification event, without the `state` that only a receiver sets.
    writePing: async (target) => {
      const nowMs = clock.now();
      const id = newId("securityEventToken", nowMs, randomBytes);
      const claims = {
        iss: issuer,
        txn: id,
        sub_id: { format: "opaque", id: streamOf(target) },
        events: { [STREAM_EVENTS.verification]: {} },
      };
      const claimsJson = JSON.stringify(claims);
      return { ...(await sign(target, { id, occurredAt: new Date(nowMs), claimsJson })), challenge: id };
    },
    // RFC 8935 section 2.2: 202 accepts a token.
    acknowledges: (status) => status === 200 || status === 202,
  };
}
