import { type Static, Type } from "typebox";
import type { SecretState } from "../../webhooks/endpoints/endpoint-secrets.ts";
import type { EndpointSecretVersion } from "../../database/repositories/endpoints/endpoint-secrets.ts";
import { Closed, Formed, Id, Nullable, OneOf, Timestamp } from "../../http/common.ts";

/** Seconds: seven days. */
const OVERLAP_MAX = 604_800;
/** Seconds: one day (security decisions K). */
const OVERLAP_DEFAULT = 86_400;

export const SecretRotation = Closed({
  overlap_seconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: OVERLAP_MAX,
      default: OVERLAP_DEFAULT,
      description:
        "How long both secrets sign before the new one becomes the first, and again after it has. 0 for a secret that is compromised: every earlier one is dead at once",
    }),
  ),
  secret: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 128,
      description:
        "The caller's own: whsec_ and the base64 of 24 to 64 bytes. Made by the service where absent",
    }),
  ),
});

const version = {
  version: Type.Integer(),
  state: OneOf(["NEXT", "CURRENT", "PREVIOUS", "RETIRED"]),
  fingerprint: Type.String({ description: "First 8 hex digits of the SHA-256 of the secret's text" }),
  created_at: Timestamp,
  current_at: Nullable(Timestamp),
  signs_until: Nullable(Timestamp),
  retired_at: Nullable(Timestamp),
  public_key: Nullable(
    Type.String({ description: "Ed25519: whpk_ and the base64 of 32 bytes; verifies v1a signatures" }),
  ),
  encrypted_secret: Nullable(
    Type.String({ description: "A secret that was made on schedule, as a JWE to the recipient's key" }),
  ),
};

const Version = Type.Object(version);

const SIGNING = ["hmac-sha256", "ed25519"] as const;

const settings = {
  signing: OneOf(SIGNING),
  rotation_days: Nullable(Type.Integer({ minimum: 1, maximum: 365 })),
};

const KeyPart = Type.Optional(
  Formed({
    pattern: "^[A-Za-z0-9_-]{1,1400}$",
    wanted: "base64url without padding (A-Z, a-z, 0-9, - and _), 1,400 characters at most",
  }),
);

/** A public key as a JWK (RFC 7517). A private one has members that are not known here. */
const Recipient = Closed({
  kty: OneOf(["RSA", "EC", "OKP"]),
  crv: Type.Optional(OneOf(["P-256", "P-384", "P-521", "X25519"])),
  n: KeyPart,
  e: KeyPart,
  x: KeyPart,
  y: KeyPart,
  kid: Type.Optional(
    Formed({
      pattern: "^[\\x21-\\x7e]{1,128}$",
      wanted: "1 to 128 printable ASCII characters without spaces",
    }),
  ),
  use: Type.Optional(OneOf(["enc"])),
  alg: Type.Optional(OneOf(["RSA-OAEP-256", "ECDH-ES+A256KW"])),
});

/** How an endpoint signs, and when its secret is replaced. Members that are absent stay. */
export const SecretSettings = Closed({
  signing: Type.Optional(settings.signing),
  rotation_days: Type.Optional(settings.rotation_days),
  recipient: Type.Optional(Nullable(Recipient)),
});

/** How the versions of an endpoint's secret stand, newest first; never a value. */
export const EndpointSecrets = Type.Object({
  endpoint_id: Id("endpoint"),
  ...settings,
  recipient: Nullable(Type.Unsafe<unknown>({ type: "object", additionalProperties: true })),
  data: Type.Array(Version),
});

export const RotatedEndpointSecret = Type.Object({
  endpoint_id: Id("endpoint"),
  ...version,
  secret: Type.String({ description: "Shown here only", examples: ["whsec_…"] }),
});

type WireVersion = Static<typeof Version>;

/** When each version stops signing is known of those that end with a rotation. */
export function presentVersion(
  row: EndpointSecretVersion,
  next: EndpointSecretVersion | undefined,
): WireVersion {
  const { state, createdAt } = row;
  const signsUntil =
    state === "PREVIOUS" ? row.overlapEndsAt : state === "CURRENT" ? next?.overlapEndsAt : null;
  return {
    version: row.version,
    state,
    fingerprint: row.fingerprint,
    created_at: createdAt.toISOString(),
    current_at: (row.currentAt ?? createdAt).toISOString(),
    signs_until: signsUntil?.toISOString() ?? null,
    retired_at: row.retiredAt?.toISOString() ?? null,
    public_key: row.publicKey,
    encrypted_secret: row.encryptedSecret,
  };
}

export function presentSecrets({
  holder,
  versions,
}: Omit<SecretState, "now">): Static<typeof EndpointSecrets> {
  const next = versions.find(({ state }) => state === "NEXT");
  const asymmetric = versions.some(({ state, publicKey }) => state === "CURRENT" && publicKey !== null);
  return {
    endpoint_id: holder.id,
    signing: asymmetric ? "ed25519" : "hmac-sha256",
    rotation_days: holder.rotationDays,
    recipient: holder.recipient === null ? null : (JSON.parse(holder.recipient) as unknown),
    data: versions.map((version) => presentVersion(version, next)),
  };
}
