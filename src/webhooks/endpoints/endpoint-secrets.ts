/** The life of an endpoint's secret: NEXT, CURRENT, PREVIOUS, RETIRED (security decisions F). */
import { appendEntry, type By } from "../../compliance/append-entry.ts";
import type { ComplianceEntry, EntrySources } from "../../compliance/entry.ts";
import type { Keyring } from "../../crypto/keyring.ts";
import type { Queryable } from "../../database/pool.ts";
import { findDataKey } from "../../database/repositories/data-keys.ts";
import {
  type EndpointSecretVersion,
  findSecretHolder,
  insertSecretVersion,
  listSecretVersions,
  lockSecretHolder,
  moveSecretVersions,
  type SecretHolder,
} from "../../database/repositories/endpoints/endpoint-secrets.ts";
import { activated, retired, versionsAt } from "../../domain/signing-secrets.ts";
import { SignetError, validationFailed } from "../../domain/errors.ts";
import { publicKeyOf } from "../../lib/receiver/ed25519.ts";
import { decodeSecret, generateSecret } from "../../lib/receiver/secret.ts";
import { secretAad, secretFingerprint, signingKeyAad } from "../../crypto/endpoint-secret.ts";

const SIGNING_KEY_BYTES = 32;

export interface EndpointSecretServices extends EntrySources {
  readonly keyring: Keyring;
}

/** Whose secrets. */
export interface EndpointPlace {
  readonly tenantId: string;
  readonly id: string;
}

export interface SecretRotation {
  /** How long both secrets sign before NEXT becomes the first, and again after it has; 0 replaces every one at once. */
  readonly overlapSeconds: number;
  /** The tenant's own, `whsec_…`. */
  readonly secret?: string | undefined;
}

export interface RotatedSecret {
  readonly version: EndpointSecretVersion;
  /** To be shown once. */
  readonly secret: string;
}

/** An endpoint in the caller's transaction, locked, and its versions as they stand now. */
export interface Standing {
  readonly holder: SecretHolder;
  readonly versions: readonly EndpointSecretVersion[];
  readonly now: Date;
}

/**
 * How the versions stand now, newest first.
 *
 * @throws SignetError NOT_FOUND
 */
export async function secretsOf(
  db: Queryable,
  { tenantId, id }: EndpointPlace,
  nowMs: number,
): Promise<Omit<Standing, "now">> {
  const holder = (await findSecretHolder(db, tenantId, id)) ?? notFound();
  return { holder, versions: versionsAt(await listSecretVersions(db, holder), asOf(holder, nowMs)) };
}

/**
 * Begins a rotation, or with an overlap of 0 replaces every version at once.
 *
 * @param db a transaction of the tenant
 * @throws SignetError NOT_FOUND; INVALID_STATE while a rotation goes on, or while the tenant is held; VALIDATION_FAILED
 */
export async function rotateSecret(
  db: Queryable,
  place: EndpointPlace,
  rotation: SecretRotation,
  { by, services }: { readonly by: By; readonly services: EndpointSecretServices },
): Promise<RotatedSecret> {
  const { randomBytes } = services;
  const standing = await lockStanding(db, place, services);
  const { holder, versions, now } = standing;
  const emergency = rotation.overlapSeconds === 0;
  if (!emergency && versions.some(({ state }) => state === "NEXT" || state === "PREVIOUS")) {
    throw new SignetError("INVALID_STATE", {
      detail:
        "A rotation of this secret goes on. It ends with its overlap; overlap_seconds 0 ends it at once.",
    });
  }
  const secret = ownSecret(rotation.secret, versions) ?? generateSecret(randomBytes);
  if (emergency) {
    const live = versions.filter(({ state }) => state !== "RETIRED");
    await moveSecretVersions(
      db,
      holder,
      live.map((old) => retired(old, now)),
    );
  }
  const version = await addVersion(
    db,
    standing,
    { secret, overlapSeconds: rotation.overlapSeconds },
    services,
  );
  const { version: number } = version;
  const details = { version: number, overlap_seconds: rotation.overlapSeconds, emergency };
  await recordSecretChange(db, { ...by, type: "endpoint.secret_rotated", details }, { place, services });
  return { version, secret };
}

/** A version to be added. */
interface AddedSecret {
  readonly secret: string;
  readonly overlapSeconds: number;
  /** The secret, encrypted to the tenant's own key. */
  readonly encryptedSecret?: string | null;
}

/**
 * Adds a version, NEXT or with an overlap of 0 CURRENT, with keys of its own where the current one has them.
 *
 * @throws SignetError INVALID_STATE while the tenant is held
 */
export async function addVersion(
  db: Queryable,
  { holder, versions, now }: Standing,
  { secret, overlapSeconds, encryptedSecret = null }: AddedSecret,
  services: EndpointSecretServices,
): Promise<EndpointSecretVersion> {
  const { keyring } = services;
  const { tenantId, id } = holder;
  const number = Math.max(0, ...versions.map(({ version }) => version)) + 1;
  const overlapMs = overlapSeconds * 1_000;
  const isNext = overlapMs > 0;
  const dataKey = await findDataKey(db, tenantId);
  const sealedSecret = await keyring.sealForTenant(
    dataKey,
    tenantId,
    secretAad(tenantId, id, number),
    secret,
  );
  const asymmetric = versions.some(({ state, publicKey }) => state === "CURRENT" && publicKey !== null);
  const keys = asymmetric ? await newSigningKey(db, holder, number, services) : null;
  const version: EndpointSecretVersion = {
    version: number,
    state: isNext ? "NEXT" : "CURRENT",
    fingerprint: secretFingerprint(secret),
    createdAt: now,
    currentAt: new Date(now.getTime() + overlapMs),
    overlapEndsAt: isNext ? new Date(now.getTime() + 2 * overlapMs) : null,
    retiredAt: null,
    publicKey: keys?.publicKey ?? null,
    encryptedSecret,
  };
  await insertSecretVersion(db, holder, { ...version, sealedSecret, sealedKey: keys?.sealedKey ?? null });
  return version;
}

/** An Ed25519 key pair for a version. */
export async function newSigningKey(
  db: Queryable,
  { tenantId, id }: EndpointPlace,
  version: number,
  { keyring, randomBytes }: EndpointSecretServices,
): Promise<{ readonly sealedKey: string; readonly publicKey: string }> {
  const seed = randomBytes(SIGNING_KEY_BYTES);
  const aad = signingKeyAad(tenantId, id, version);
  const sealedKey = await keyring.sealForTenant(await findDataKey(db, tenantId), tenantId, aad, seed);
  return { sealedKey, publicKey: publicKeyOf(seed) };
}

/**
 * Makes NEXT the current version now; the one before goes on beside it for as long as the overlap was to be.
 *
 * @param db a transaction of the tenant
 * @throws SignetError NOT_FOUND; INVALID_STATE when there is no NEXT, or while the tenant is held
 */
export async function activateSecret(
  db: Queryable,
  place: EndpointPlace,
  { by, services }: { readonly by: By; readonly services: EndpointSecretServices },
): Promise<Omit<Standing, "now">> {
  const { holder, versions, now } = await lockStanding(db, place, services);
  const next = versions.find(({ state }) => state === "NEXT");
  if (next === undefined || next.currentAt === null || next.overlapEndsAt === null) {
    throw new SignetError("INVALID_STATE", { detail: "There is no next secret that could be activated." });
  }
  const overlapMs = next.overlapEndsAt.getTime() - next.currentAt.getTime();
  const overlapEndsAt = new Date(now.getTime() + overlapMs);
  const moved = activated(versions, { at: now, overlapEndsAt });
  await moveSecretVersions(db, holder, changed(versions, moved));
  const details = { version: next.version };
  await recordSecretChange(db, { ...by, type: "endpoint.secret_activated", details }, { place, services });
  return { holder, versions: moved };
}

/**
 * Writes down what the times say already, with its entry in the log; false when the endpoint is gone or held.
 *
 * @param db a transaction of the tenant, or of role signet_worker
 */
export async function settleSecrets(
  db: Queryable,
  place: EndpointPlace,
  services: EndpointSecretServices,
): Promise<boolean> {
  const holder = await lockSecretHolder(db, place.tenantId, place.id);
  if (holder === undefined || holder.heldAt !== null) {
    return false;
  }
  await settle(db, holder, services);
  return true;
}

/** @throws SignetError NOT_FOUND */
export async function lockStanding(
  db: Queryable,
  { tenantId, id }: EndpointPlace,
  services: EndpointSecretServices,
): Promise<Standing> {
  const holder = (await lockSecretHolder(db, tenantId, id)) ?? notFound();
  return { holder, ...(await settle(db, holder, services)) };
}

/** Before a change and in the sweep: whoever comes first writes the activation that the times have made. */
async function settle(
  db: Queryable,
  holder: SecretHolder,
  services: EndpointSecretServices,
): Promise<Omit<Standing, "holder">> {
  const now = new Date(services.clock.now());
  const written = await listSecretVersions(db, holder);
  const versions = versionsAt(written, asOf(holder, now.getTime()));
  const moves = changed(written, versions);
  await moveSecretVersions(db, holder, moves);
  for (const { state, version } of moves) {
    if (state === "CURRENT") {
      await recordSecretChange(
        db,
        { actor: "system:secrets", type: "endpoint.secret_activated", details: { version, due: true } },
        { place: holder, services },
      );
    }
  }
  return { versions, now };
}

/** `versionsAt` and its like leave a version that does not move as it is. */
function changed(
  before: readonly EndpointSecretVersion[],
  after: readonly EndpointSecretVersion[],
): EndpointSecretVersion[] {
  return after.filter((version) => !before.includes(version));
}

function asOf({ heldAt }: SecretHolder, nowMs: number): number {
  return heldAt === null ? nowMs : Math.min(nowMs, heldAt.getTime());
}

function ownSecret(
  secret: string | undefined,
  versions: readonly EndpointSecretVersion[],
): string | undefined {
  if (secret === undefined) {
    return undefined;
  }
  try {
    decodeSecret(secret);
  } catch {
    throw validationFailed([
      { pointer: "/secret", code: "format", detail: "is not whsec_ and the base64 of 24 to 64 bytes" },
    ]);
  }
  const fingerprint = secretFingerprint(secret);
  if (versions.some((version) => version.fingerprint === fingerprint)) {
    throw validationFailed([
      { pointer: "/secret", code: "used", detail: "is or was a secret of this endpoint" },
    ]);
  }
  return secret;
}

/** Tells the compliance log. */
export async function recordSecretChange(
  db: Queryable,
  entry: By & {
    readonly type: "endpoint.secret_rotated" | "endpoint.secret_activated" | "endpoint.updated";
    readonly details: NonNullable<ComplianceEntry["details"]>;
  },
  { place, services }: { readonly place: EndpointPlace; readonly services: EndpointSecretServices },
): Promise<void> {
  await appendEntry(db, { ...entry, tenant: place.tenantId, target: place.id }, services);
}

function notFound(): never {
  throw new SignetError("NOT_FOUND", { detail: "There is no such endpoint." });
}
