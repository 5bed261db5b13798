/** Lifecycle of an endpoint's secret: NEXT, CURRENT, PREVIOUS, RETIRED (security decisions F). */
import { appendEntry, type By } from "#compliance/append-entry.ts";
import type { ComplianceEntry, EntryServices } from "#compliance/entry.ts";
import type { Keyring } from "#crypto/keyring.ts";
import type { Queryable } from "#database/pool.ts";
import { findDataKey } from "#database/repositories/data-keys.ts";
import {
  type EndpointSecretVersion,
  findSecretHolder,
  insertSecretVersion,
  listSecretVersions,
  lockSecretHolder,
  moveSecretVersions,
  type SecretHolder,
} from "#database/repositories/endpoints/endpoint-secrets.ts";
import { activated, retired, versionsAt } from "#domain/endpoint-secrets.ts";
import { found, SignetError, validationFailed } from "#domain/errors.ts";
import { publicKeyOf } from "#lib/receiver/ed25519.ts";
import { decodeSecret, generateSecret } from "#lib/receiver/secret.ts";
import { secretAad, secretFingerprint, signingKeyAad } from "#crypto/endpoint-secret.ts";

const SIGNING_KEY_BYTES = 32;

export interface EndpointSecretServices extends EntryServices {
  readonly keyring: Keyring;
}

/** Identifies an endpoint. */
export interface EndpointKey {
  readonly tenantId: string;
  readonly id: string;
}

export interface SecretRotation {
  /**
   * How long both secrets sign before NEXT becomes the first, and again afterwards. 0 replaces all versions
   * immediately.
   */
  readonly overlapSeconds: number;
  /** The tenant's own secret, `whsec_…`. */
  readonly secret?: string | undefined;
}

export interface RotatedSecret {
  readonly version: EndpointSecretVersion;
  /** Shown once. */
  readonly secret: string;
}

/** A locked endpoint and its current secret versions, within the caller's transaction. */
export interface SecretState {
  readonly holder: SecretHolder;
  readonly versions: readonly EndpointSecretVersion[];
  readonly now: Date;
}

/**
 * Returns the current versions, newest first.
 *
 * @throws SignetError NOT_FOUND
 */
export async function secretsOf(
  db: Queryable,
  { tenantId, id }: EndpointKey,
  nowMs: number,
): Promise<Omit<SecretState, "now">> {
  const holder = found(await findSecretHolder(db, tenantId, id), "endpoint");
  return { holder, versions: versionsAt(await listSecretVersions(db, holder), asOf(holder, nowMs)) };
}

/**
 * Begins a rotation. With an overlap of 0, replaces all versions immediately.
 *
 * @param db a transaction of the tenant
 * @throws SignetError NOT_FOUND; INVALID_STATE during a rotation or while the tenant is held; VALIDATION_FAILED
 */
export async function rotateSecret(
  db: Queryable,
  place: EndpointKey,
  rotation: SecretRotation,
  { by, services }: { readonly by: By; readonly services: EndpointSecretServices },
): Promise<RotatedSecret> {
  const { randomBytes } = services;
  const secrets = await lockSecretState(db, place, services);
  const { holder, versions, now } = secrets;
  const emergency = rotation.overlapSeconds === 0;
  if (!emergency && versions.some(({ state }) => state === "NEXT" || state === "PREVIOUS")) {
    throw new SignetError("INVALID_STATE", {
      detail:
        "A rotation of this secret is in progress. It ends after its overlap, or immediately with overlap_seconds 0.",
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
    secrets,
    { secret, overlapSeconds: rotation.overlapSeconds },
    services,
  );
  const { version: number } = version;
  const details = { version: number, overlap_seconds: rotation.overlapSeconds, emergency };
  await recordSecretChange(db, { ...by, type: "endpoint.secret_rotated", details }, { place, services });
  return { version, secret };
}

/** A version to add. */
interface AddedSecret {
  readonly secret: string;
  readonly overlapSeconds: number;
  /** The secret, encrypted to the tenant's own key. */
  readonly encryptedSecret?: string | null;
}

/**
 * Adds a NEXT version, or a CURRENT one with an overlap of 0. It gets its own key pair if the current version has
 * one.
 *
 * @throws SignetError INVALID_STATE while the tenant is held
 */
export async function addVersion(
  db: Queryable,
  { holder, versions, now }: SecretState,
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

/** Creates an Ed25519 key pair for a version. */
export async function newSigningKey(
  db: Queryable,
  { tenantId, id }: EndpointKey,
  version: number,
  { keyring, randomBytes }: EndpointSecretServices,
): Promise<{ readonly sealedKey: string; readonly publicKey: string }> {
  const seed = randomBytes(SIGNING_KEY_BYTES);
  const aad = signingKeyAad(tenantId, id, version);
  const sealedKey = await keyring.sealForTenant(await findDataKey(db, tenantId), tenantId, aad, seed);
  return { sealedKey, publicKey: publicKeyOf(seed) };
}

/**
 * Makes NEXT the current version now. The previous version keeps signing for the configured overlap.
 *
 * @param db a transaction of the tenant
 * @throws SignetError NOT_FOUND; INVALID_STATE if there is no NEXT, or while the tenant is held
 */
export async function activateSecret(
  db: Queryable,
  place: EndpointKey,
  { by, services }: { readonly by: By; readonly services: EndpointSecretServices },
): Promise<Omit<SecretState, "now">> {
  const { holder, versions, now } = await lockSecretState(db, place, services);
  const next = versions.find(({ state }) => state === "NEXT");
  if (next === undefined || next.currentAt === null || next.overlapEndsAt === null) {
    throw new SignetError("INVALID_STATE", { detail: "There is no next secret to activate." });
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
 * Stores the states that have changed by time, with an entry in the log. Returns false if the endpoint is gone or
 * held.
 *
 * @param db a transaction of the tenant, or of role signet_worker
 */
export async function settleSecrets(
  db: Queryable,
  place: EndpointKey,
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
export async function lockSecretState(
  db: Queryable,
  { tenantId, id }: EndpointKey,
  services: EndpointSecretServices,
): Promise<SecretState> {
  const holder = found(await lockSecretHolder(db, tenantId, id), "endpoint");
  return { holder, ...(await settle(db, holder, services)) };
}

/** Stores an activation that is due. Runs before each change and in the sweep, whichever comes first. */
async function settle(
  db: Queryable,
  holder: SecretHolder,
  services: EndpointSecretServices,
): Promise<Omit<SecretState, "holder">> {
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

/**
 * Returns the versions that changed. `versionsAt` and similar functions return unchanged versions as the same object.
 */
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
      {
        pointer: "/secret",
        code: "format",
        detail: "must be whsec_ followed by the base64 of 24 to 64 bytes",
      },
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

/** Records a change in the compliance log. */
export async function recordSecretChange(
  db: Queryable,
  entry: By & {
    readonly type: "endpoint.secret_rotated" | "endpoint.secret_activated" | "endpoint.updated";
    readonly details: NonNullable<ComplianceEntry["details"]>;
  },
  { place, services }: { readonly place: EndpointKey; readonly services: EndpointSecretServices },
): Promise<void> {
  await appendEntry(db, { ...entry, tenant: place.tenantId, target: place.id }, services);
}
