/** The signed ping that an endpoint must acknowledge with 200 within 5 seconds (specification 3). */
import type { Pool } from "../database/pool.ts";
import { loadForPing, type PingTarget, recordPing } from "../database/repositories/endpoint-verifications.ts";
import { buildEnvelope } from "../delivery/envelope.ts";
import type { HttpSender } from "../delivery/http-sender.ts";
import type { ReceiverAccess } from "../delivery/receiver-access.ts";
import type { Signer, SigningSecrets } from "../delivery/signer.ts";
import type { Clock } from "../domain/clock.ts";
import { newId, type RandomBytes } from "../domain/ids.ts";

const PING_DEADLINE_MS = 5_000;
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

export interface ChallengeOptions {
  readonly pool: Pool;
  readonly http: HttpSender;
  /** For endpoints with headers or an authentication of their own. */
  readonly access: ReceiverAccess;
  readonly signer: Signer;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
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
    // 200 and nothing else (specification 3): another 2xx is no acknowledgement.
    const error = result.status === 200 ? null : (result.error ?? "status");
    return { error, echoed: result.responseBody?.includes(challenge) === true };
  }

  return {
    ping: async (ping) => {
      const target = await loadForPing(pool, ping.endpointId, ping.generation);
      if (target === undefined) {
        return "superseded";
      }
      const { error, echoed } = await send(ping, target);
      const booked = await recordPing(pool, {
        id: ping.endpointId,
        generation: ping.generation,
        now: new Date(clock.now()),
        error,
        verifiedBy: error === null ? (echoed ? "echo" : "status") : null,
        nextAttemptAt: error === null || ping.nextAttemptMs === null ? null : new Date(ping.nextAttemptMs),
      });
      if (!booked) {
        return "superseded";
      }
      return error === null ? "verified" : "failed";
    },
  };
}
