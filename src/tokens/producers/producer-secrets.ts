/** Producer secrets, with which credentials sign events: create, rotate with overlap, revoke, require. The log records every change. */
import { appendEntry, type By } from "#compliance/append-entry.ts";
import type { EntryServices } from "#compliance/entry.ts";
import { envelopeAad } from "#crypto/envelope.ts";
import type { Keyring } from "#crypto/keyring.ts";
import type { PoolClient } from "#database/pool.ts";
import type { CredentialRow } from "#database/repositories/tokens/credentials.ts";
import { findDataKey } from "#database/repositories/data-keys.ts";
import {
  addProducerSecret,
  listProducerSecrets,
  lockCredential,
  type ProducerSecretRow,
  requireSignatures,
  revokeProducerSecrets,
} from "#database/repositories/tokens/producer-secrets.ts";
import { secretFingerprint } from "#crypto/endpoint-secret.ts";
import { noSuch, SignetError } from "#domain/errors.ts";
import { generateSecret } from "#lib/receiver/secret.ts";
import { type Published, publishPolicyChange } from "#revocation/publish-revocation.ts";

/** Maximum number of valid versions. With a third, producers would not know which one to remove. */
const GOOD_MAX = 2;

export interface ProducerSecretServices extends EntryServices {
  readonly keyring: Keyring;
}

/** Returns the additional data of a producer secret's envelope. */
export function producerSecretAad(tenantId: string, credentialId: string, version: number): string {
  return envelopeAad("producer_secrets", tenantId, credentialId, version);
}

/** Whether a version is valid, so that it verifies signatures. */
export function isGood({ revoked_at: revokedAt, ends_at: endsAt }: ProducerSecretRow, now: Date): boolean {
  return revokedAt === null && (endsAt === null || endsAt > now);
}

type Credential = Pick<CredentialRow, "id" | "tenant_id" | "state">;

export interface CreatedProducerSecret {
  readonly row: ProducerSecretRow;
  readonly secret: string;
}

function requireActive({ state }: Credential): void {
  if (state !== "ACTIVE") {
    throw new SignetError("INVALID_STATE", { detail: "The credential is revoked." });
  }
}

/**
 * Creates a version. The previous version stays valid for the overlap.
 *
 * @param db the tenant's transaction
 * @throws SignetError `INVALID_STATE` if the credential is revoked, or if two versions are valid and do not end now
 */
export async function createProducerSecret(
  db: PoolClient,
  credential: Credential,
  { overlapSeconds, by }: { readonly overlapSeconds: number; readonly by: By },
  services: ProducerSecretServices,
): Promise<CreatedProducerSecret> {
  requireActive(credential);
  const { id, tenant_id: tenantId } = credential;
  const { keyring, clock, randomBytes } = services;
  await lockCredential(db, tenantId, id);
  const now = new Date(clock.now());
  const versions = await listProducerSecrets(db, tenantId, id);
  if (overlapSeconds > 0 && versions.filter((row) => isGood(row, now)).length >= GOOD_MAX) {
    throw new SignetError("INVALID_STATE", {
      detail:
        "Two versions are already valid: revoke one, wait for its end, or end both with overlap_seconds 0.",
    });
  }
  const version = (versions[0]?.version ?? 0) + 1;
  const secret = generateSecret(randomBytes);
  const fingerprint = secretFingerprint(secret);
  const dataKey = await findDataKey(db, tenantId);
  const aad = producerSecretAad(tenantId, id, version);
  await addProducerSecret(db, {
    tenantId,
    credentialId: id,
    version,
    sealed: await keyring.sealForTenant(dataKey, tenantId, aad, secret),
    fingerprint,
    now,
    othersEndAt: new Date(now.getTime() + overlapSeconds * 1_000),
  });
  const details = { version, fingerprint, overlap_seconds: overlapSeconds };
  await appendEntry(
    db,
    { ...by, type: "credential.signing_secret_created", tenant: tenantId, target: id, details },
    services,
  );
  const row = { version, fingerprint, created_at: now, last_used_at: null, ends_at: null, revoked_at: null };
  return { row, secret };
}

/**
 * Revokes one version or all of them.
 *
 * @throws SignetError `NOT_FOUND` for an unknown version
 */
export async function revokeProducerSecretVersions(
  db: PoolClient,
  { id, tenant_id: tenantId }: Credential,
  {
    version,
    reason,
    by,
  }: { readonly version: number | undefined; readonly reason: string | undefined; readonly by: By },
  services: EntryServices,
): Promise<ProducerSecretRow[]> {
  await lockCredential(db, tenantId, id);
  const now = new Date(services.clock.now());
  const ended = await revokeProducerSecrets(db, tenantId, id, { version, now });
  const versions = await listProducerSecrets(db, tenantId, id);
  if (version !== undefined && !versions.some((row) => row.version === version)) {
    throw noSuch("version");
  }
  if (ended.length > 0) {
    await appendEntry(
      db,
      {
        ...by,
        type: "credential.signing_secret_revoked",
        tenant: tenantId,
        target: id,
        reason,
        details: { versions: ended },
      },
      services,
    );
  }
  return versions;
}

/**
 * Sets whether publishing with this credential requires a signature in addition to the token.
 *
 * @returns the change to wait for after the commit, until every process applies it; undefined if nothing changed
 * @throws SignetError `INVALID_STATE` for a revoked credential, and for one without a producer secret
 */
export async function setSignatureRequired(
  db: PoolClient,
  credential: Credential,
  { required, by }: { readonly required: boolean; readonly by: By },
  services: EntryServices,
): Promise<Published | undefined> {
  requireActive(credential);
  const { id, tenant_id: tenantId } = credential;
  await lockCredential(db, tenantId, id);
  const now = new Date(services.clock.now());
  const versions = await listProducerSecrets(db, tenantId, id);
  if (required && !versions.some((row) => isGood(row, now))) {
    throw new SignetError("INVALID_STATE", {
      detail:
        "The credential has no signing secret. Create one first; otherwise it could not publish at all.",
    });
  }
  if (!(await requireSignatures(db, tenantId, id, required))) {
    return undefined;
  }
  const details = { signature_required: required };
  await appendEntry(
    db,
    { ...by, type: "credential.signing_changed", tenant: tenantId, target: id, details },
    services,
  );
  return await publishPolicyChange(db, { tenantId, actor: by.actor }, services);
}
