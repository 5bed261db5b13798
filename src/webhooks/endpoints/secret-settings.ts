/** How an endpoint signs, and when its secret is rotated automatically. */
import { createPublicKey, type JsonWebKey } from "node:crypto";
import { CompactEncrypt, importJWK, type JWK } from "jose";
import type { By } from "#compliance/append-entry.ts";
import type { Queryable } from "#database/pool.ts";
import { saveRotationSchedule, setSigningKey } from "#database/repositories/endpoints/endpoint-secrets.ts";
import { validationFailed } from "#domain/errors.ts";
import { soundKey } from "#lib/public-key.ts";
import {
  type EndpointKey,
  type EndpointSecretServices,
  lockSecretState,
  newSigningKey,
  recordSecretChange,
} from "./endpoint-secrets.ts";

/** Absent members keep their value. */
export interface SecretSettingsChange {
  readonly signing?: "hmac-sha256" | "ed25519" | undefined;
  readonly rotationDays?: number | null | undefined;
  readonly recipient?: Readonly<Record<string, unknown>> | null | undefined;
}

/**
 * Encrypts a secret to the tenant's own key, as a compact JWE.
 *
 * @throws an error for an unsuitable key
 */
export async function encryptToRecipient(recipient: string, secret: string): Promise<string> {
  const jwk = JSON.parse(recipient) as JWK;
  soundKey(createPublicKey({ key: jwk as JsonWebKey, format: "jwk" }));
  const alg = jwk.kty === "RSA" ? "RSA-OAEP-256" : "ECDH-ES+A256KW";
  const header = { alg, enc: "A256GCM", ...(jwk.kid === undefined ? {} : { kid: jwk.kid }) };
  return await new CompactEncrypt(Buffer.from(secret))
    .setProtectedHeader(header)
    .encrypt(await importJWK(jwk, alg));
}

/**
 * Changes the settings in the caller's transaction of the tenant. Creates Ed25519 keys for every version that signs.
 * Removes them with the option.
 *
 * @throws SignetError NOT_FOUND; INVALID_STATE while the tenant is held; VALIDATION_FAILED
 */
export async function changeSecretSettings(
  db: Queryable,
  place: EndpointKey,
  change: SecretSettingsChange,
  { by, services }: { readonly by: By; readonly services: EndpointSecretServices },
): Promise<void> {
  const { holder, versions } = await lockSecretState(db, place, services);
  const live = versions.filter(({ state }) => state !== "RETIRED");
  const signing =
    change.signing ?? (live.some(({ publicKey }) => publicKey !== null) ? "ed25519" : "hmac-sha256");
  const rotationDays = change.rotationDays === undefined ? holder.rotationDays : change.rotationDays;
  const recipient = await readRecipient(change.recipient, holder.recipient);
  if (rotationDays !== null && recipient === null && signing === "hmac-sha256") {
    throw validationFailed([
      {
        pointer: "/rotation_days",
        code: "recipient_missing",
        detail: "requires a recipient for new secrets, or signing ed25519",
      },
    ]);
  }
  for (const { version, publicKey } of live) {
    if ((publicKey !== null) !== (signing === "ed25519")) {
      const keys = signing === "ed25519" ? await newSigningKey(db, holder, version, services) : null;
      await setSigningKey(db, holder, version, keys);
    }
  }
  await saveRotationSchedule(db, { ...place, rotationDays, recipient });
  const details = { signing, has_recipient: recipient !== null, rotation_days: rotationDays };
  await recordSecretChange(db, { ...by, type: "endpoint.updated", details }, { place, services });
}

async function readRecipient(
  recipient: SecretSettingsChange["recipient"],
  before: string | null,
): Promise<string | null> {
  if (recipient === undefined || recipient === null) {
    return recipient === null ? null : before;
  }
  const text = JSON.stringify(recipient);
  try {
    await encryptToRecipient(text, "");
  } catch {
    throw validationFailed([
      {
        pointer: "/recipient",
        code: "key",
        detail: "must be a public key: RSA of at least 2,048 bits, P-256, P-384, P-521 or X25519",
      },
    ]);
  }
  return text;
}
