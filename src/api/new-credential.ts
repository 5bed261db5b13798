/** The making of a credential as a request asks for it: with a secret, or for a workload that has none. */
import { type Static, Type } from "typebox";
import { type CertificateBinding, namesCertificate } from "../tokens/credentials/certificate-binding.ts";
import { issueCredential, type IssueServices } from "../tokens/credentials/issue-credential.ts";
import { issueWorkloadCredential } from "../tokens/credentials/issue-workload-credential.ts";
import type { VersionedCredentialRow } from "../database/repositories/tokens/credentials.ts";
import type { PrincipalRow } from "../database/repositories/tokens/principals.ts";
import { validationFailed } from "../domain/errors.ts";
import { acceptedKeySet, CLIENT_KEYS_MAX } from "../tokens/oauth/client-keys.ts";
import { SanUri, Thumbprints } from "./schemas/certificates.ts";
import { Closed, Nullable, OneOf } from "../http/common.ts";

/** Members of a JWK are the client's to choose; those that are kept are picked by name (client-keys.ts). */
const ClientJwks = Closed({
  keys: Type.Array(Type.Record(Type.String(), Type.Unknown()), { minItems: 1, maxItems: CLIENT_KEYS_MAX }),
});

/** The body that asks for a credential. */
export const NewCredential = Closed({
  san_uri: Type.Optional(Nullable(SanUri)),
  certificate_thumbprints: Type.Optional(Thumbprints),
  /** No secret: the certificate, or the keys where there are some, are the client's proof. */
  rotation_mode: Type.Optional(OneOf(["workload"])),
  jwks: Type.Optional(ClientJwks),
});

export interface NewCredentialServices extends IssueServices {
  /** Whether production principals get only credentials that name a certificate: wherever mutual TLS is on. */
  readonly certificatesRequired: boolean;
}

export interface MadeCredential {
  readonly row: VersionedCredentialRow;
  /** Absent for a workload. */
  readonly clientSecret: string | undefined;
}

/** Production proves who it is by more than a secret, where it can (security decisions C 0). */
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
 * Makes the credential.
 *
 * @throws SignetError `VALIDATION_FAILED` for what does not go together
 */
export async function makeCredential(
  principal: Pick<PrincipalRow, "id" | "tenant_id" | "environment">,
  body: Static<typeof NewCredential>,
  services: NewCredentialServices,
): Promise<MadeCredential> {
  const binding = {
    sanUri: body.san_uri ?? null,
    certificateThumbprints: body.certificate_thumbprints ?? [],
  };
  if (services.certificatesRequired) {
    requireBinding(principal, binding);
  }
  if (body.rotation_mode === "workload") {
    const jwks = body.jwks === undefined ? undefined : acceptedKeySet(body.jwks.keys);
    const row = await issueWorkloadCredential(principal, { binding, jwks }, services);
    return { row, clientSecret: undefined };
  }
  if (body.jwks !== undefined) {
    throw validationFailed([
      { pointer: "/jwks", code: "not_applicable", detail: "belongs to rotation_mode workload only" },
    ]);
  }
  return await issueCredential(principal, binding, services);
}
