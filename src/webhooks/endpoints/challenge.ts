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
import type { FormatOf } from "../sending/delivery-format.ts";
import type { SendRequest } from "../sending/http-sender.ts";
import type { ReceiverAccess } from "../sending/receiver-access.ts";
import { type OwnEventServices, publishOwnEvent } from "../ingest/own-event.ts";
import { addressKey } from "#http/rate-limits/address-key.ts";

export const PING_DEADLINE_MS = 5_000;
const MINUTE_MS = 60_000;
/** Maximum number of addresses of one name that are counted; no others are connected to. */
const ADDRESSES_MAX = 8;

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

export interface ChallengeOptions extends OwnEventServices {
  readonly pool: Pool;
  readonly access: ReceiverAccess;
  readonly formatOf: FormatOf;
  /** Maximum pings per minute to a name, and to an address; 0 for no limit. */
  readonly pingsPerHost: number;
}

/** Sends a ping and records the response. `superseded` means that the endpoint no longer waits for it. */
export async function sendPing(
  ping: Ping,
  options: ChallengeOptions,
): Promise<"verified" | "failed" | "superseded"> {
  const target = await loadForPing(options.pool, ping.endpointId, ping.generation);
  if (target === undefined) {
    return "superseded";
  }
  const { error, echoed } = await sendWithinQuota(
    target.url,
    options,
    async (admitAddresses) => await send(target, ping.attempt, admitAddresses, options),
  );
  const record = {
    id: ping.endpointId,
    generation: ping.generation,
    now: new Date(options.clock.now()),
    error,
    verifiedBy: error === null ? (echoed ? ("echo" as const) : ("status" as const)) : null,
    nextAttemptAt: error === null || ping.nextAttemptMs === null ? null : new Date(ping.nextAttemptMs),
  };
  const booked = await book(record, target.tenant_id, options);
  if (!booked) {
    return "superseded";
  }
  return error === null ? "verified" : "failed";
}

async function send(
  target: PingTarget,
  attempt: number,
  admitAddresses: AdmitAddresses,
  { access, formatOf }: ChallengeOptions,
): Promise<PingEnd> {
  const format = formatOf(target);
  const { challenge, ...written } = await format.writePing(target, attempt);
  const request = { url: target.url, ...written, deadlineMs: PING_DEADLINE_MS, admitAddresses };
  const result = await access.send(request, target);
  const echoed = result.responseBody?.includes(challenge) === true;
  if (format.acknowledges(result.status)) {
    return { error: target.require_echo && !echoed ? "echo" : null, echoed };
  }
  return { error: result.error ?? "status", echoed };
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
