/** The signed ping that an endpoint must acknowledge with 200 within 5 seconds (specification 3). */
import type { Pool } from "../database/pool.ts";
import {
  loadForPing,
  type PingRecord,
  type PingTarget,
  recordPing,
  takeHostPing,
} from "../database/repositories/endpoint-verifications.ts";
import { transaction } from "../database/transaction.ts";
import { buildEnvelope } from "../delivery/envelope.ts";
import type { HttpSender } from "../delivery/http-sender.ts";
import type { ReceiverAccess } from "../delivery/receiver-access.ts";
import { type OwnEventSources, publishOwnEvent } from "../delivery/own-event.ts";
import type { Signer, SigningSecrets } from "../delivery/signer.ts";
import { newId } from "../domain/ids.ts";

const PING_DEADLINE_MS = 5_000;
const MINUTE_MS = 60_000;
const CHALLENGE_BYTES = 32;
const PING_EVENT_TYPE = "ping";

export interface Ping {
  readonly endpointId: string;
  readonly generation: number;
  readonly attempt: number;
  readonly nextAttemptMs: number | null;
}

export interface Challenge {
  /** Sends one ping and books the answer; `superseded` when the endpoint does not wait for it any more. */
  ping(ping: Ping): Promise<"verified" | "failed" | "superseded">;
}

export interface ChallengeOptions extends OwnEventSources {
  readonly pool: Pool;
  readonly http: HttpSender;
  /** For endpoints with headers or an authentication of their own. */
  readonly access: ReceiverAccess;
  readonly signer: Signer;
  /** Most pings a minute to one host; 0: no limit. */
  readonly pingsPerHost: number;
  readonly openSecrets: (endpointId: string, target: PingTarget) => Promise<SigningSecrets>;
}

export function createChallenge(options: ChallengeOptions): Challenge {
  const { pool, http, access, signer, clock, randomBytes } = options;

  async function send(ping: Ping, target: PingTarget): Promise<{ error: string | null; echoed: boolean }> {
    const nowMs = clock.now();
    const challenge = Buffer.from(randomBytes(CHALLENGE_BYTES)).toString("base64url");
    const timestampSeconds = Math.floor(nowMs / 1_000);
    const eventId = newId("event", nowMs, randomBytes);
    // Receivers that expect the members of a delivery find them; no row stands behind this id.
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
      ...(await options.openSecrets(ping.endpointId, target)),
      body,
      eventId,
      eventType: PING_EVENT_TYPE,
      deliveryId,
      attempt: ping.attempt,
      timestampSeconds,
    });
    const request = { url: target.url, headers, body, deadlineMs: PING_DEADLINE_MS };
    const { requestVersion, tenantId, wrappedDataKey } = target;
    const result =
      requestVersion === null
        ? await http.send(request)
        : await access.send(request, { id: ping.endpointId, tenantId, wrappedDataKey, requestVersion });
    const echoed = result.responseBody?.includes(challenge) === true;
    if (result.status === 200) {
      return { error: target.requireEcho && !echoed ? "echo" : null, echoed };
    }
    // 200 and nothing else (specification 3): another 2xx is no acknowledgement.
    return { error: result.error ?? "status", echoed };
  }

  return {
    ping: async (ping) => {
      const target = await loadForPing(pool, ping.endpointId, ping.generation);
      if (target === undefined) {
        return "superseded";
      }
      const { error, echoed } = (await mayPing(target.url, options))
        ? await send(ping, target)
        : { error: "limited", echoed: false };
      const record = {
        id: ping.endpointId,
        generation: ping.generation,
        now: new Date(clock.now()),
        error,
        verifiedBy: error === null ? (echoed ? ("echo" as const) : ("status" as const)) : null,
        nextAttemptAt: error === null || ping.nextAttemptMs === null ? null : new Date(ping.nextAttemptMs),
      };
      const booked = await book(record, target.tenantId, options);
      if (!booked) {
        return "superseded";
      }
      return error === null ? "verified" : "failed";
    },
  };
}

/** Whether the host may be pinged now: endpoints are a way to have us send requests to hosts that never asked. */
async function mayPing(url: string, { pool, clock, pingsPerHost }: ChallengeOptions): Promise<boolean> {
  const nowMs = clock.now();
  return (
    pingsPerHost === 0 ||
    (await takeHostPing(pool, new URL(url).hostname, {
      now: new Date(nowMs),
      since: new Date(nowMs - MINUTE_MS),
      max: pingsPerHost,
    }))
  );
}

/** Books a ping; the last of a run that was in vain is told to the tenant. */
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
