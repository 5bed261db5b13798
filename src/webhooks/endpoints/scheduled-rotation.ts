/** Scheduled rotations (docs/signing.md). The tenant gets the new secret only encrypted. */
import type { Queryable } from "#database/pool.ts";
import { findDataKey } from "#database/repositories/data-keys.ts";
import { findDueRotations, loadCurrentSecret } from "#database/repositories/endpoints/endpoint-secrets.ts";
import { publishOwnEvent } from "../ingest/own-event.ts";
import { generateSecret } from "#lib/receiver/secret.ts";
import { eachDue, type RoundOptions } from "./each-due.ts";
import {
  addVersion,
  type EndpointKey,
  type EndpointSecretServices,
  lockSecretState,
  recordSecretChange,
  type SecretState,
} from "./endpoint-secrets.ts";
import { secretAad } from "#crypto/endpoint-secret.ts";
import { encryptToRecipient } from "./secret-settings.ts";

const OVERLAP_SECONDS = 86_400;
const DAY_MS = 86_400_000;

export interface ScheduledRotationOptions extends EndpointSecretServices, RoundOptions {
  /** How long a dead letter is kept, in milliseconds. */
  readonly deadLetterMs: number;
}

/** Runs one round; safe to run concurrently. Resolves to the number of started rotations. */
export async function rotateOnSchedule(options: ScheduledRotationOptions): Promise<number> {
  const step = async (db: Queryable, place: EndpointKey) => await rotateOne(db, place, options);
  return await eachDue(findDueRotations, { step, failure: "a scheduled rotation could not begin" }, options);
}

async function rotateOne(
  db: Queryable,
  place: EndpointKey,
  options: ScheduledRotationOptions,
): Promise<boolean> {
  const secrets = await lockSecretState(db, place, options);
  if (!isDue(secrets)) {
    return false;
  }
  const { recipient } = secrets.holder;
  const secret =
    recipient === null ? await sameSecret(db, place, options) : generateSecret(options.randomBytes);
  const encryptedSecret = recipient === null ? null : await encryptToRecipient(recipient, secret);
  const added = { secret, overlapSeconds: OVERLAP_SECONDS, encryptedSecret };
  const { version, fingerprint, currentAt, publicKey } = await addVersion(db, secrets, added, options);
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

/** Checked again under the lock, because the tenant may have rotated meanwhile. */
function isDue({ holder, versions, now }: SecretState): boolean {
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
  readonly holder: SecretState["holder"];
  readonly current: SecretState["versions"][number];
}): boolean {
  return holder.recipient !== null || current.publicKey !== null;
}

/** Returns the current secret. Without a recipient nobody could receive a new one, so only the key pair rotates. */
async function sameSecret(
  db: Queryable,
  { tenantId, id }: EndpointKey,
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
