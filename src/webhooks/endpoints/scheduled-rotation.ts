/** Rotations on a schedule (docs/signing.md): the tenant gets the new key without a secret in clear leaving the service. */
import type { Queryable } from "../../database/pool.ts";
import { findDataKey } from "../../database/repositories/data-keys.ts";
import {
  findDueRotations,
  loadCurrentSecret,
} from "../../database/repositories/endpoints/endpoint-secrets.ts";
import { publishOwnEvent } from "../ingest/own-event.ts";
import { generateSecret } from "../../lib/receiver/secret.ts";
import { eachDue, type RoundOptions } from "./each-due.ts";
import {
  addVersion,
  type EndpointPlace,
  type EndpointSecretServices,
  lockStanding,
  recordSecretChange,
  type Standing,
} from "./endpoint-secrets.ts";
import { secretAad } from "../../crypto/endpoint-secret.ts";
import { encryptToRecipient } from "./secret-settings.ts";

const OVERLAP_SECONDS = 86_400;
const DAY_MS = 86_400_000;

export interface ScheduledRotationOptions extends EndpointSecretServices, RoundOptions {
  /** How long a dead letter is kept. */
  readonly deadLetterMs: number;
}

/** One round; may run beside itself. Resolves with the number of rotations that it has begun. */
export async function rotateOnSchedule(options: ScheduledRotationOptions): Promise<number> {
  const step = async (db: Queryable, place: EndpointPlace) => await rotateOne(db, place, options);
  return await eachDue(
    findDueRotations,
    { step, failure: "a rotation on schedule could not begin" },
    options,
  );
}

async function rotateOne(
  db: Queryable,
  place: EndpointPlace,
  options: ScheduledRotationOptions,
): Promise<boolean> {
  const standing = await lockStanding(db, place, options);
  if (!isDue(standing)) {
    return false;
  }
  const { recipient } = standing.holder;
  const secret =
    recipient === null ? await sameSecret(db, place, options) : generateSecret(options.randomBytes);
  const encryptedSecret = recipient === null ? null : await encryptToRecipient(recipient, secret);
  const added = { secret, overlapSeconds: OVERLAP_SECONDS, encryptedSecret };
  const { version, fingerprint, currentAt, publicKey } = await addVersion(db, standing, added, options);
  const data = {
    endpoint_id: place.id,
    version,
    fingerprint,
    current_at: currentAt?.toISOString() ?? null,
    public_key: publicKey,
    encrypted_secret: encryptedSecret,
  };
  await publishOwnEvent(
    db,
    { tenantId: place.tenantId, type: "endpoint.secret_rotated", data: JSON.stringify(data) },
    options,
  );
  const details = { version, overlap_seconds: OVERLAP_SECONDS, scheduled: true };
  await recordSecretChange(
    db,
    { actor: "system:secrets", type: "endpoint.secret_rotated", details },
    { place, services: options },
  );
  return true;
}

/** Asked again under the lock: the tenant may have been faster. */
function isDue({ holder, versions, now }: Standing): boolean {
  const live = versions.filter(({ state }) => state !== "RETIRED");
  const [current] = live;
  if (current === undefined || live.length > 1 || holder.rotationDays === null || holder.heldAt !== null) {
    return false;
  }
  const since = (current.currentAt ?? current.createdAt).getTime();
  return since + holder.rotationDays * DAY_MS <= now.getTime() && canRotate({ holder, current });
}

function canRotate({
  holder,
  current,
}: {
  readonly holder: Standing["holder"];
  readonly current: Standing["versions"][number];
}): boolean {
  return holder.recipient !== null || current.publicKey !== null;
}

/** Without a recipient nobody could get a new one: the key pair rotates alone. */
async function sameSecret(
  db: Queryable,
  { tenantId, id }: EndpointPlace,
  { keyring }: ScheduledRotationOptions,
): Promise<string> {
  const kept = await loadCurrentSecret(db, { tenantId, id });
  if (kept === undefined) {
    throw new Error("the endpoint has no current secret");
  }
  const dataKey = await findDataKey(db, tenantId);
  const aad = secretAad(tenantId, id, kept.version);
  return (await keyring.openForTenant(dataKey, tenantId, aad, kept.sealed)).toString("utf8");
}
