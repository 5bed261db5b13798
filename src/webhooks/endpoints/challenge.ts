/** The signed ping that an endpoint must acknowledge with 200 within 5 seconds (contract 3). */
import type { Pool } from "#database/pool.ts";
import {
  loadForPing,
  type PingRecord,
  type PingTarget,
  recordPing,
  takeHostPing,
} from "#database/repositories/endpoints/endpoint-verifications.ts";
import { transaction } from "#database/transaction.ts";
import { buildEnvelope } from "../sending/envelope.ts";
import type { HttpSender, SendRequest } from "../sending/http-sender.ts";
import type { ReceiverAccess } from "../sending/receiver-access.ts";
import { type OwnEventServices, publishOwnEvent } from "../ingest/own-event.ts";
import type { OpenSecrets } from "../sending/open-secrets.ts";
import type { Signer } from "../sending/signer.ts";
import { type SetKeys, signSet } from "../ssf/set.ts";
import { STREAM_EVENTS } from "#domain/security-events.ts";
import { newId } from "#domain/ids.ts";
import { addressKey } from "#http/rate-limits/address-key.ts";

export const PING_DEADLINE_MS = 5_000;
const MINUTE_MS = 60_000;
const CHALLENGE_BYTES = 32;
/** Maximum number of addresses of one name that are counted; no others are connected to. */
const ADDRESSES_MAX = 8;
const PING_EVENT_TYPE = "ping";

export interface Ping {
  readonly endpointId: string;
  readonly generation: number;
  readonly attempt: number;
  readonly nextAttemptMs: number | null;
}

/** Result of a ping. */
interface PingEnd {
  readonly error: string | null;
  readonly echoed: boolean;
}

type AdmitAddresses = NonNullable<SendRequest["admitAddresses"]>;

export interface Challenge {
  /** Sends a ping and records the response. `superseded` means that the endpoint no longer waits for it. */
  ping(ping: Ping): Promise<"verified" | "failed" | "superseded">;
}

export interface ChallengeOptions extends OwnEventServices {
  readonly pool: Pool;
  readonly http: HttpSender;
  /** For endpoints with custom headers or authentication. */
  readonly access: ReceiverAccess;
  readonly signer: Signer;
  /** Maximum pings per minute to a name, and to an address; 0 for no limit. */
  readonly pingsPerHost: number;
  readonly openSecrets: OpenSecrets;
  /** Key of security event tokens. */
  readonly setKeys: SetKeys;
  /** Public URL, `iss` of those tokens. */
  readonly issuer: string;
}

/** A ping's request, and the text that shows that its receiver has read it. */
interface WrittenPing extends Pick<SendRequest, "body" | "headers"> {
  readonly challenge: string;
}

/** Writes the ping of a stream: a verification event, without the `state` that only a receiver sets. */
async function writeSet(
  streamId: string,
  { signer, setKeys, issuer, clock, randomBytes }: ChallengeOptions,
): Promise<WrittenPing> {
  const nowMs = clock.now();
  const id = newId("securityEventToken", nowMs, randomBytes);
  const claims = {
    iss: issuer,
    txn: id,
    sub_id: { format: "opaque", id: streamId },
    events: { [STREAM_EVENTS.verification]: {} },
  };
  const set = await signSet(setKeys, {
    id,
    streamId,
    occurredAt: new Date(nowMs),
    claimsJson: JSON.stringify(claims),
  });
  return { headers: signer.setHeaders(), body: Buffer.from(set), challenge: id };
}

async function writePing(
  ping: Ping,
  target: PingTarget,
  { signer, openSecrets, clock, randomBytes }: ChallengeOptions,
): Promise<WrittenPing> {
  const nowMs = clock.now();
  const challenge = Buffer.from(randomBytes(CHALLENGE_BYTES)).toString("base64url");
  const timestampSeconds = Math.floor(nowMs / 1_000);
  const eventId = newId("event", nowMs, randomBytes);
  // Receivers may expect all members of a delivery. This id has no row.
  const deliveryId = newId("delivery", nowMs, randomBytes);
  const body = buildEnvelope({
    eventId,
    type: PING_EVENT_TYPE,
    timestamp: new Date(nowMs).toISOString(),
    sentAt: timestampSeconds,
    attempt: ping.attempt,
    endpointId: ping.endpointId,
    deliveryId,
    own: true,
    metadataJson: target.metadata,
    dataJson: JSON.stringify({ endpoint_id: ping.endpointId, challenge }),
  });
  const headers = signer.headers({
    ...(await openSecrets({ ...target, endpoint_id: ping.endpointId })),
    body,
    eventId,
    eventType: PING_EVENT_TYPE,
    deliveryId,
    attempt: ping.attempt,
    timestampSeconds,
  });
  return { headers, body, challenge };
}

export function createChallenge(options: ChallengeOptions): Challenge {
  const { pool, http, access, clock } = options;

  async function send(ping: Ping, target: PingTarget, admitAddresses: AdmitAddresses): Promise<PingEnd> {
    const { ssf_stream: ssfStream } = target;
    const { challenge, ...written } =
      ssfStream === null ? await writePing(ping, target, options) : await writeSet(ssfStream, options);
    const request = { url: target.url, ...written, deadlineMs: PING_DEADLINE_MS, admitAddresses };
    const { request_version } = target;
    const result =
      request_version === null
        ? await http.send(request)
        : await access.send(request, { ...target, endpoint_id: ping.endpointId, request_version });
    const echoed = result.responseBody?.includes(challenge) === true;
    if (result.status === 200) {
      return { error: target.require_echo && !echoed ? "echo" : null, echoed };
    }
    // RFC 8935 section 2.2: 202 accepts a token.
    if (ssfStream !== null && result.status === 202) {
      return { error: null, echoed };
    }
    // Only 200 acknowledges a ping (contract 3), not another 2xx.
    return { error: result.error ?? "status", echoed };
  }

  return {
    ping: async (ping) => {
      const target = await loadForPing(pool, ping.endpointId, ping.generation);
      if (target === undefined) {
        return "superseded";
      }
      const { error, echoed } = await sendWithinQuota(
        target.url,
        options,
        async (admitAddresses) => await send(ping, target, admitAddresses),
      );
      const record = {
        id: ping.endpointId,
        generation: ping.generation,
        now: new Date(clock.now()),
        error,
        verifiedBy: error === null ? (echoed ? ("echo" as const) : ("status" as const)) : null,
        nextAttemptAt: error === null || ping.nextAttemptMs === null ? null : new Date(ping.nextAttemptMs),
      };
      const booked = await book(record, target.tenant_id, options);
      if (!booked) {
        return "superseded";
      }
      return error === null ? "verified" : "failed";
    },
  };
}

/** Sends a ping within the quota. Many names may share an address, so names and connected addresses both count. */
async function sendWithinQuota(
  url: string,
  options: ChallengeOptions,
  send: (admitAddresses: AdmitAddresses) => Promise<PingEnd>,
): Promise<PingEnd> {
  const limited: PingEnd = { error: "limited", echoed: false };
  const host = new URL(url).hostname.replaceAll(/^\[|\]$/g, "");
  if (!(await mayPing(host, options))) {
    return limited;
  }
  let refused = false;
  const sent = await send(async (addresses) => {
    const others = new Set(addresses.slice(0, ADDRESSES_MAX).map(addressKey));
    // A literal address has been counted already.
    others.delete(host);
    const admitted = await Promise.all([...others].map(async (address) => await mayPing(address, options)));
    refused = admitted.includes(false);
    return !refused;
  });
  return refused ? limited : sent;
}

/**
 * Whether a name or address may be pinged now. Otherwise endpoints could make us send requests to uninvolved hosts.
 */
async function mayPing(host: string, { pool, clock, pingsPerHost }: ChallengeOptions): Promise<boolean> {
  const nowMs = clock.now();
  return (
    pingsPerHost === 0 ||
    (await takeHostPing(pool, host, {
      now: new Date(nowMs),
      since: new Date(nowMs - MINUTE_MS),
      max: pingsPerHost,
    }))
  );
}

/** Records a ping. Notifies the tenant if the last ping of a run failed. */
async function book(record: PingRecord, tenantId: string, options: ChallengeOptions): Promise<boolean> {
  const { pool } = options;
  if (record.error === null || record.nextAttemptAt !== null) {
    return await recordPing(pool, record);
  }
  return await transaction(pool, async (db) => {
    const booked = await recordPing(db, record);
    if (booked) {
      const { id, generation, error } = record;
      const data = JSON.stringify({ endpoint_id: id, generation, last_error: error });
      await publishOwnEvent(db, { tenantId, type: "verification.exhausted", data, except: id }, options);
    }
    return booked;
  });
}
