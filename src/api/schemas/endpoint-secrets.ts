import { Type } from "typebox";
import type { EndpointSecretVersion } from "../../database/repositories/endpoint-secrets.ts";
import { Closed, Id, Nullable, OneOf, Timestamp } from "./common.ts";

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
};

/** How the versions of an endpoint's secret stand, newest first; never a value. */
export const EndpointSecrets = Type.Object({
  endpoint_id: Id("endpoint"),
  data: Type.Array(Type.Object(version)),
});

export const RotatedEndpointSecret = Type.Object({
  endpoint_id: Id("endpoint"),
  ...version,
  secret: Type.String({ description: "Shown here only", examples: ["whsec_…"] }),
});

/** When each version stops signing is known of those that end with a rotation. */
export function presentVersion(
  {
    version: number,
    state,
    fingerprint,
    createdAt,
    currentAt,
    overlapEndsAt,
    retiredAt,
  }: EndpointSecretVersion,
  next: EndpointSecretVersion | undefined,
): {
  version: number;
  state: EndpointSecretVersion["state"];
  fingerprint: string;
  created_at: string;
  current_at: string | null;
  signs_until: string | null;
  retired_at: string | null;
} {
  const signsUntil = state === "PREVIOUS" ? overlapEndsAt : state === "CURRENT" ? next?.overlapEndsAt : null;
  return {
    version: number,
    state,
    fingerprint,
    created_at: createdAt.toISOString(),
    current_at: (currentAt ?? createdAt).toISOString(),
    signs_until: signsUntil?.toISOString() ?? null,
    retired_at: retiredAt?.toISOString() ?? null,
  };
}

export function presentVersions(
  endpointId: string,
  versions: readonly EndpointSecretVersion[],
): { endpoint_id: string; data: ReturnType<typeof presentVersion>[] } {
  const next = versions.find(({ state }) => state === "NEXT");
  return { endpoint_id: endpointId, data: versions.map((one) => presentVersion(one, next)) };
}
