/** Finds the object that something leaked belongs to: by id, by MAC, by fingerprint, or by a token's signature. */
import { timingSafeEqual } from "node:crypto";
import { secretFingerprint } from "#crypto/endpoint-secret.ts";
import type { Keyring } from "#crypto/keyring.ts";
import type { Pepper } from "#crypto/pepper.ts";
import type { PoolClient, Queryable } from "#database/pool.ts";
import {
  type CredentialOwner,
  findClientSecret,
  findCredentialOwner,
  listCertificateOwners,
} from "#database/repositories/tokens/credentials.ts";
import {
  listSecretsByFingerprint,
  type SealedProducerSecret,
} from "#database/repositories/tokens/producer-secrets.ts";
import { findPublicKey, findSigningKey } from "#database/repositories/tokens/signing-keys.ts";
import { found, noSuch, SignetError, validationFailed } from "#domain/errors.ts";
import { readOwnToken } from "../oauth/verify-access-token.ts";
import { producerSecretAad } from "../producers/producer-secrets.ts";
import { openVerificationKey } from "../signing-keys/signing-key.ts";
import type { Leak } from "./recognize-leak.ts";

/** Maximum number of credentials that one certificate may end at once. */
const CERTIFICATE_OWNERS_MAX = 100;

export interface LeakServices {
  readonly pepper: Pepper;
  readonly keyring: Pick<Keyring, "openForTenant">;
  /** Issuer of the deployment's tokens. */
  readonly issuer: string;
  /** Reads the public halves of signing keys: role signet_issuer or signet_operator. */
  readonly keys: Queryable;
}

/** The object to revoke. */
export type FoundLeak =
  | {
      readonly kind: "credential";
      readonly owners: readonly CredentialOwner[];
      /** Version of the client secret; null if something else leaked. */
      readonly version: number | null;
    }
  | { readonly kind: "signing_secret"; readonly owner: CredentialOwner; readonly version: number }
  | {
      readonly kind: "jti";
      readonly jti: string;
      /** The token's credential; null if only its jti is known. */
      readonly owner: CredentialOwner | null;
      /** End of the token, in Unix milliseconds; null if unknown. */
      readonly expiresAt: number | null;
    }
  | { readonly kind: "kid"; readonly kid: string }
  | { readonly kind: "cert"; readonly sha256: string };

/** The tenant on whose behalf to search; null for operators, who may find any object. */
export type LeakScope = string | null;

function nothingHas(detail: string): SignetError {
  return new SignetError("NOT_FOUND", { detail });
}

async function findByClientSecret(
  db: Queryable,
  secret: string,
  scope: LeakScope,
  { pepper }: LeakServices,
): Promise<FoundLeak> {
  const hit = await findClientSecret(
    db,
    pepper.macs(secret).map(({ mac }) => mac),
  );
  const owner = hit && (await findCredentialOwner(db, scope, hit.credential_id));
  if (hit === undefined || owner === undefined) {
    throw nothingHas("No credential has this client secret.");
  }
  return { kind: "credential", owners: [owner], version: hit.version };
}

/** Compares the secrets. Rejects if the stored one cannot be opened: a 404 would say that nothing leaked. */
async function holds(
  { tenant_id, credential_id, version, sealed, data_key }: SealedProducerSecret,
  secret: string,
  { keyring }: LeakServices,
): Promise<boolean> {
  const aad = producerSecretAad(tenant_id, credential_id, version);
  const opened = await keyring.openForTenant(data_key, tenant_id, aad, sealed);
  const presented = Buffer.from(secret);
  return opened.length === presented.length && timingSafeEqual(opened, presented);
}

async function findBySigningSecret(
  db: Queryable,
  secret: string,
  scope: LeakScope,
  services: LeakServices,
): Promise<FoundLeak> {
  for (const candidate of await listSecretsByFingerprint(db, scope, secretFingerprint(secret))) {
    if (await holds(candidate, secret, services)) {
      const { credential_id: id, tenant_id, client_id, version } = candidate;
      return { kind: "signing_secret", owner: { id, tenant_id, client_id }, version };
    }
  }
  throw nothingHas(
    "No credential has this signing secret, or it was already revoked. If it is an endpoint's secret, rotate that.",
  );
}

async function findByToken(
  text: string,
  scope: LeakScope,
  { issuer, keys }: LeakServices,
): Promise<FoundLeak> {
  const token = await readOwnToken(text, issuer, async (kid) => {
    const row = await findPublicKey(keys, kid);
    return row && openVerificationKey(row);
  });
  if (token === undefined) {
    throw validationFailed([
      {
        pointer: "/target",
        code: "signature",
        detail: "is not an access token of this service: its signature, issuer or form is invalid",
      },
    ]);
  }
  const { jti, tenantId, credentialId, clientId } = token.identity;
  if (scope !== null && tenantId !== scope) {
    throw nothingHas("No credential of this tenant was issued this token.");
  }
  const owner = { id: credentialId, tenant_id: tenantId, client_id: clientId };
  return { kind: "jti", jti, owner, expiresAt: token.expiresAt };
}

/** A tenant's certificate ends the tenant's credentials that name it; it may belong to others too. */
async function findOwnersOfCertificate(db: Queryable, tenantId: string, sha256: string): Promise<FoundLeak> {
  const owners = await listCertificateOwners(db, tenantId, { sha256, limit: CERTIFICATE_OWNERS_MAX + 1 });
  if (owners.length === 0) {
    throw nothingHas("No credential of this tenant names this certificate.");
  }
  if (owners.length > CERTIFICATE_OWNERS_MAX) {
    throw new SignetError("LIMIT_EXCEEDED", {
      detail: `More than ${CERTIFICATE_OWNERS_MAX} credentials name this certificate. An operator can revoke the certificate itself.`,
    });
  }
  return { kind: "credential", owners, version: null };
}

async function findKeyOrCertificate(
  db: Queryable,
  { kid, sha256 }: Extract<Leak, { form: "kid_or_cert" }>,
): Promise<FoundLeak> {
  if ((await findSigningKey(db, kid)) !== undefined) {
    return { kind: "kid", kid };
  }
  // A mistyped key id must not look like a revoked certificate.
  if ((await listCertificateOwners(db, null, { sha256, limit: 1 })).length > 0) {
    return { kind: "cert", sha256 };
  }
  throw nothingHas(
    "No signing key has this id, and no credential names a certificate with this thumbprint. To revoke a certificate that no credential names, send its SHA-256 in hexadecimal.",
  );
}

/** Finds what an operator alone may revoke: a token by its jti, a signing key, a certificate of all tenants. */
async function findForOperator(db: Queryable, leak: OperatorLeak): Promise<FoundLeak> {
  if (leak.form === "jti") {
    return { kind: "jti", jti: leak.jti, owner: null, expiresAt: null };
  }
  if (leak.form === "cert") {
    return { kind: "cert", sha256: leak.sha256 };
  }
  if (leak.form === "kid_or_cert") {
    return await findKeyOrCertificate(db, leak);
  }
  found(await findSigningKey(db, leak.kid), "signing key");
  return { kind: "kid", kid: leak.kid };
}

type OperatorLeak = Extract<Leak, { form: "jti" | "kid" | "cert" | "kid_or_cert" }>;

async function findForTenant(db: Queryable, tenantId: string, leak: OperatorLeak): Promise<FoundLeak> {
  if (leak.form === "jti") {
    // Tokens are not stored, and another tenant's must not end.
    throw validationFailed([
      {
        pointer: "/target",
        code: "whole_token",
        detail: "is a jti, which does not prove whose token it is: send the whole token",
      },
    ]);
  }
  if (leak.form === "kid") {
    throw noSuch("signing key");
  }
  return await findOwnersOfCertificate(db, tenantId, leak.sha256);
}

/**
 * Finds the object to revoke.
 *
 * @param db transaction of role signet_operator, or of signet_api for the tenant in `scope`
 * @throws SignetError `NOT_FOUND` if nothing matches, or only another tenant's object; `VALIDATION_FAILED` for a token
 *   that this deployment did not sign, and for a jti from a tenant
 */
export async function findLeak(
  db: PoolClient,
  leak: Leak,
  scope: LeakScope,
  services: LeakServices,
): Promise<FoundLeak> {
  if (leak.form === "credential") {
    const owner = found(await findCredentialOwner(db, scope, leak.id), "credential");
    return { kind: "credential", owners: [owner], version: null };
  }
  if (leak.form === "client_secret") {
    return await findByClientSecret(db, leak.secret, scope, services);
  }
  if (leak.form === "signing_secret") {
    return await findBySigningSecret(db, leak.secret, scope, services);
  }
  if (leak.form === "token") {
    return await findByToken(leak.token, scope, services);
  }
  return scope === null ? await findForOperator(db, leak) : await findForTenant(db, scope, leak);
}
