/** Creates a credential from a request: with a secret, or for a workload without one. */
import { type Static, Type } from "typebox";
import { type CertificateBinding, namesCertificate } from "#tokens/credentials/certificate-binding.ts";
import { issueCredential, type IssueServices } from "#tokens/credentials/issue-credential.ts";
import { issueWorkloadCredential } from "#tokens/credentials/issue-workload-credential.ts";
import type { By } from "#compliance/append-entry.ts";
import type { Queryable } from "#database/pool.ts";
import type { CredentialRow, VersionedCredentialRow } from "#database/repositories/tokens/credentials.ts";
import type { PrincipalRow } from "#database/repositories/tokens/principals.ts";
import { CREDENTIAL_CREATED, insertNotices } from "#database/repositories/tokens/revocation-notices.ts";
import { validationFailed } from "#domain/errors.ts";
import { acceptedKeySet, CLIENT_KEYS_MAX } from "#tokens/oauth/client-keys.ts";
import { SanUri, Thumbprints } from "./schemas/certificates.ts";
import { Body, Name, Nullable, OneOf } from "#http/common.ts";

/** A JWK may have any members; client-keys.ts selects by name those that are stored. */
const ClientJwks = Body("ClientKeySet", {
  keys: Type.Array(Type.Record(Type.String(), Type.Unknown()), { minItems: 1, maxItems: CLIENT_KEYS_MAX }),
});

/** The body of a request for a new credential. */
export const NewCredential = Body("CredentialInput", {
  name: Type.Optional(Nullable(Name)),
  san_uri: Type.Optional(Nullable(SanUri)),
  certificate_thumbprints: Type.Optional(Thumbprints),
  /** No secret: the client authenticates with its keys, if any, or its certificate. */
  rotation_mode: Type.Optional(OneOf(["workload"])),
  jwks: Type.Optional(ClientJwks),
});

export interface NewCredentialServices extends IssueServices {
  /** Whether credentials of production principals must name a certificate: true if mutual TLS is on. */
  readonly certificatesRequired: boolean;
  /** Permitted algorithms of clients' assertions. */
  readonly assertionAlgorithms: readonly string[];
}

export interface MadeCredential {
  readonly row: VersionedCredentialRow;
  /** Absent for a workload. */
  readonly clientSecret: string | undefined;
}

/** Requires a certificate for a production principal, since a secret alone is too weak (security decisions C 0). */
function requireBinding(
  { environment }: Pick<PrincipalRow, "environment">,
  binding: CertificateBinding,
): void {
  if (environment === "production" && !namesCertificate(binding)) {
    const detail = "needs san_uri or certificate_thumbprints for a production principal";
    throw validationFailed([{ pointer: "", code: "required", detail }]);
  }
}

/**
 * Creates the credential.
 *
 * @throws SignetError `VALIDATION_FAILED` for members that exclude each other
 */
export async function makeCredential(
  principal: Pick<PrincipalRow, "id" | "tenant_id" | "environment">,
  body: Static<typeof NewCredential>,
  services: NewCredentialServices,
): Promise<MadeCredential> {
  const binding = {
    san_uri: body.san_uri ?? null,
    certificate_thumbprints: body.certificate_thumbprints ?? [],
  };
  const described = { ...binding, name: body.name ?? null };
  if (services.certificatesRequired) {
    requireBinding(principal, binding);
  }
  if (body.rotation_mode === "workload") {
    const jwks =
      body.jwks === undefined ? undefined : acceptedKeySet(body.jwks.keys, services.assertionAlgorithms);
    const row = await issueWorkloadCredential(principal, { described, jwks }, services);
    return { row, clientSecret: undefined };
  }
  if (body.jwks !== undefined) {
    throw validationFailed([
      { pointer: "/jwks", code: "not_applicable", detail: "is only allowed with rotation_mode workload" },
    ]);
  }
  return await issueCredential(principal, described, services);
}

/** Leaves a notice for the streams of its tenant, in the transaction that creates the credential. */
export async function noticeCreated(
  db: Queryable,
  {
    id: target,
    tenant_id,
    san_uri: sanUri,
    certificate_thumbprints: certificateThumbprints,
    created_at: at,
  }: CredentialRow,
  { actor }: By,
): Promise<void> {
  const details = {
    certificate: namesCertificate({ san_uri: sanUri, certificate_thumbprints: certificateThumbprints }),
  };
  await insertNotices(db, [{ kind: CREDENTIAL_CREATED, target, tenant_id, actor, at, details }]);
}
